// SPDX-License-Identifier: Apache-2.0
// Trains a small perceptron on handwritten digits, on any number of processes: mpirun -n 4 digits.
// `diff single_process.cpp main.cpp` shows what that takes.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <stdexcept>

#include <hvdlite/hvdlite.hpp>

#include "data.hpp"
#include "mlp.hpp"
#include "options.hpp"
#include "progress.hpp"

int train(hvdlite::Environment& env, int argc, char** argv) {
  const auto world = env.world();
  const int rank = world.rank();
  const digits::Options options{argc, argv, rank};
  if (options.exit_code) return *options.exit_code;

  const auto [train, test] = digits::load(options.data);
  const auto train_rows = train.images.rows(), test_rows = test.images.rows();

  digits::Mlp model{train.images.cols(), options.hidden};
  digits::Mlp gradients = model;
  model.initialise(hvdlite::rank_seed(world, options.seed));
  hvdlite::broadcast_parameters(world, model.parameters());
  hvdlite::DistributedOptimizer<hvdlite::Sgd, Eigen::MatrixXf> optimizer{
      world,
      {.learning_rate = options.learning_rate, .momentum = options.momentum},
      {.bucket_bytes = options.bucket_bytes}};

  const hvdlite::ShardedSampler rows{
      train_rows, world, {.batch = options.batch, .seed = options.seed}};
  const hvdlite::ShardedSampler tests{test_rows, world, {.batch = test_rows}};
  digits::Progress progress{options, std::size_t(train_rows), rank};
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    double loss = 0;
    std::int64_t correct = 0;
    for (const auto& batch : rows.epoch(epoch)) {
      loss += model.backward(train.images(batch, Eigen::all), train.labels(batch), gradients);
      optimizer.step(model.parameters(), gradients.parameters(), {.samples = batch.size()});
      progress.step_done();
    }
    for (const auto& batch : tests.epoch(epoch))
      correct += model.count_correct(test.images(batch, Eigen::all), test.labels(batch));
    hvdlite::allreduce(world, loss, hvdlite::sum{});
    hvdlite::allreduce(world, correct, hvdlite::sum{});
    progress.epoch_done(loss / double(train_rows), double(correct) / double(test_rows));
  }

  std::uint64_t lowest = model.hash(), highest = lowest;
  hvdlite::allreduce(world, lowest, hvdlite::min{});
  hvdlite::allreduce(world, highest, hvdlite::max{});
  if (lowest != highest) throw std::runtime_error{"the ranks have different parameters"};
  if (rank == 0)
    std::printf("parameters 0x%016" PRIx64 " identical on %d ranks\n", lowest, world.size());
  return 0;
}

int main(int argc, char** argv) {
  return hvdlite::guarded(argc, argv,
                          [&](hvdlite::Environment& env) { return train(env, argc, argv); });
}
