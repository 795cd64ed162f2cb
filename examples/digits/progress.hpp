// SPDX-License-Identifier: Apache-2.0
// What rank 0 shows of the training: a line an epoch, beneath it a bar if the output is a
// terminal, and the curve as a CSV file. The other ranks make one as well; it says nothing.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "options.hpp"

namespace digits {

class Progress {
 public:
  /// `rows`: those of an epoch.
  Progress(const Options& options, std::size_t rows, int rank)
      : epochs_{std::size_t(options.epochs)},
        rows_{rows},
        batch_{options.batch},
        speaks_{rank == 0},
        bar_{speaks_ &&
             (options.progress == "bar" || (options.progress == "auto" && output_is_terminal()))} {
    if (!speaks_ || options.csv.empty()) return;
    csv_.open(options.csv);
    csv_ << "epoch,loss,accuracy,seconds\n" << std::flush;
    if (!csv_) throw std::runtime_error{"'" + options.csv + "': cannot be written"};
  }

  /// After each step; a step is a global batch, so rank 0 knows what all ranks have done.
  void step_done() {
    seen_ = std::min(seen_ + batch_, rows_);
    if (bar_ && Clock::now() - drawn_ > std::chrono::milliseconds{100}) draw();
  }

  /// After each epoch; `loss` is the mean over its rows, `accuracy` that on the test set.
  void epoch_done(double loss, double accuracy) {
    loss_ = loss;
    accuracy_ = accuracy;
    ++epoch_;
    seen_ = 0;
    if (!speaks_) return;
    const double seconds = elapsed();
    std::printf("%sepoch %zu loss %.10f accuracy %.4f seconds %.3f samples/s %.0f\n",
                bar_ ? "\r\033[K" : "", epoch_, loss, accuracy, seconds, rate());
    if (bar_ && epoch_ < epochs_) draw();
    std::fflush(stdout);
    if (!csv_.is_open()) return;
    csv_.precision(10);
    csv_ << epoch_ << ',' << loss << ',' << accuracy << ',' << seconds << std::endl;
    if (!csv_) throw std::runtime_error{"the file for the curve cannot be written any more"};
  }

 private:
  using Clock = std::chrono::steady_clock;

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double rate() const { return double(epoch_ * rows_ + seen_) / std::max(elapsed(), 1e-9); }

  void draw() {
    drawn_ = Clock::now();
    const std::size_t width = 24, filled = width * seen_ / std::max<std::size_t>(rows_, 1);
    const std::string bar = std::string(filled, '#') + std::string(width - filled, '.');
    const auto left = static_cast<long>(double((epochs_ - epoch_) * rows_ - seen_) / rate());
    std::printf("\r%zu/%zu [%s]", epoch_ + 1, epochs_, bar.c_str());
    if (epoch_ > 0) std::printf(" loss %.4f accuracy %.4f", loss_, accuracy_);
    std::printf(" %.0f samples/s, %ld:%02ld left\033[K", rate(), left / 60, left % 60);
    std::fflush(stdout);
  }

  // mpirun gives its ranks a pseudo-terminal, without a size, even if its own output goes into a
  // file. Where ours is one of that kind, what counts is the output of the process that started us.
  static bool output_is_terminal() {
    if (isatty(STDOUT_FILENO) == 0) return false;
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return true;
    const std::string launcher = "/proc/" + std::to_string(getppid()) + "/fd/1";
    const int output = open(launcher.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (output < 0) return false;
    const bool terminal = isatty(output) != 0;
    close(output);
    return terminal;
  }

  std::size_t epochs_, rows_, batch_;
  bool speaks_, bar_;
  std::ofstream csv_;
  std::size_t epoch_ = 0, seen_ = 0;
  double loss_ = 0, accuracy_ = 0;
  Clock::time_point start_ = Clock::now(), drawn_ = start_;
};

}  // namespace digits
