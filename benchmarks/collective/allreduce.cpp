// SPDX-License-Identifier: Apache-2.0
// What the wrapper costs: hvdlite::allreduce over the mpi backend against MPI_Allreduce on the same
// buffer, in place, sums of floats, in one process at one thread level. MPI_Allreduce runs against
// itself, too: that ratio is the noise.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <hvdlite/hvdlite.hpp>

#include "support/contest.hpp"

namespace {

using mpi_communicator = hvdlite::Communicator<hvdlite::mpi>;

mpi_communicator communicator_with(hvdlite::check_level checks,
                                   const std::shared_ptr<hvdlite::lifetime>& life) {
  hvdlite::settings set = hvdlite::settings::from_environment();
  set.checks = checks;
  return {hvdlite::mpi::channel_of(MPI_COMM_WORLD), set, life};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> sizes{4,      64,      1024,    4096,     16384,    65536,
                                 262144, 1048576, 4194304, 26214400, 104857600};
  double seconds = 2;
  std::string csv;
  CLI::App app{"hvdlite::allreduce against MPI_Allreduce"};
  app.add_option("--bytes", sizes, "sizes")->delimiter(',')->capture_default_str();
  app.add_option("--seconds", seconds, "time for each size")->capture_default_str();
  app.add_option("--csv", csv, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);

  const hvdlite::Environment environment{argc, argv};
  if (environment.world().size() < 2) {
    std::fputs("start this with mpirun, on 2 processes or more\n", stderr);
    return 2;
  }
  const bool talks = environment.world().rank() == 0;
  const auto life = std::make_shared<hvdlite::lifetime>();
  const mpi_communicator checked = communicator_with(hvdlite::check_level::on, life);
  const mpi_communicator unchecked = communicator_with(hvdlite::check_level::off, life);
  const double ranks = environment.world().size();

  std::ofstream file;
  if (talks && !csv.empty()) file.open(csv);
  if (file)
    file << "ranks,bytes,contestant,seconds,ratio,more_nanoseconds,bus_gigabytes_per_second\n";
  for (const std::size_t bytes : sizes) {
    std::vector<float> x(bytes / sizeof(float));
    const std::vector<hvdbench::contestant> contestants{
        {"MPI_Allreduce",
         [&] {
           MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                         MPI_COMM_WORLD);
         }},
        {"MPI_Allreduce again",
         [&] {
           MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.size()), MPI_FLOAT, MPI_SUM,
                         MPI_COMM_WORLD);
         }},
        {"hvdlite checks off", [&] { hvdlite::allreduce(unchecked, x, hvdlite::sum{}); }},
        {"hvdlite checks on", [&] { hvdlite::allreduce(checked, x, hvdlite::sum{}); }},
    };
    const auto figures = hvdbench::contest(contestants, seconds);
    if (!talks) continue;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const auto& f = figures[i];
      // As nccl-tests define it: what every rank would send and receive at least.
      const double bus = 2 * (ranks - 1) / ranks * static_cast<double>(bytes) / f.seconds / 1e9;
      std::printf("%10zu bytes  %-20s %12.2f us  ratio %6.3f  %+10.0f ns  %7.2f GB/s\n", bytes,
                  contestants[i].name.c_str(), f.seconds * 1e6, f.ratio, f.more_seconds * 1e9, bus);
      if (file)
        file << ranks << ',' << bytes << ',' << contestants[i].name << ',' << f.seconds << ','
             << f.ratio << ',' << f.more_seconds * 1e9 << ',' << bus << '\n';
    }
    std::fflush(stdout);
  }
}
