// SPDX-License-Identifier: Apache-2.0
// The command line of both programs.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>

namespace digits {

struct Options {
  int epochs = 20;
  std::size_t batch = 64;
  float learning_rate = 0.1f;
  float momentum = 0.9f;
  int hidden = 128;
  std::uint64_t seed = 0;
  std::string data = DIGITS_DEFAULT_DATA;
  std::string csv;
  std::string progress = "auto";
  std::size_t bucket_bytes = 25 << 20;

  /// Set when there is nothing to run, only to leave with this code: after --help, and after what
  /// could not be understood. Only rank 0 has said so: all ranks have the same command line.
  std::optional<int> exit_code;

  Options(int argc, const char* const* argv, int rank) {
    CLI::App app{"Trains a small perceptron on handwritten digits."};
    app.get_formatter()->column_width(34);
    app.add_option("--epochs", epochs, "how often every row is seen")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("--batch", batch, "rows of a global batch, all processes together")
        ->check(CLI::Range(1, 1'000'000'000))
        ->capture_default_str();
    app.add_option("--learning-rate", learning_rate, "step size")
        ->check(CLI::Range(0.0f, 1000.0f))
        ->capture_default_str();
    app.add_option("--momentum", momentum, "share of the last step in the next one")
        ->check(CLI::Range(0.0f, 1.0f))
        ->capture_default_str();
    app.add_option("--hidden", hidden, "units of the hidden layer")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--seed", seed, "of the initial weights and the order of the rows")
        ->capture_default_str();
    app.add_option("--data", data, "CSV like digits.csv.gz, or the folder with the files of MNIST")
        ->capture_default_str();
    app.add_option("--csv", csv, "file to write the curve to");
    app.add_option("--progress", progress, "bar, lines, or auto: a bar on a terminal")
        ->check(CLI::IsMember({"auto", "bar", "lines"}))
        ->capture_default_str();
    app.add_option("--bucket-bytes", bucket_bytes,
                   "of gradients that travel together (0: each alone)")
        ->capture_default_str();
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& stop) {
      std::ostringstream nowhere;
      exit_code =
          rank == 0 ? app.exit(stop, std::cout, std::cerr) : app.exit(stop, nowhere, nowhere);
    }
  }
};

}  // namespace digits
