#include "tuner/commands/bench_within.h"

#include <algorithm>
#include <chrono>

#include "engine/bench/op_bench_model.h"

namespace moetune {

int layers_within(double seconds_of_one, double most_seconds, int wanted) {
  const double layers = most_seconds / std::max(seconds_of_one, 1e-9);
  return layers >= wanted ? wanted : std::max(1, static_cast<int>(layers));
}

BenchWithin bench_within(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                         OpBenchSetup setup, double most_seconds) {
  const auto made = [&] { return std::make_unique<OpBench>(checkpoint, options, setup); };
  if (most_seconds == kNoTimeLimit || !checkpoint->spec().is_synthetic) return {.bench = made()};
  const int wanted = std::min(setup.wanted_layers, fitted(checkpoint, options, setup)->spec().layers);
  if (wanted == 1) return {.bench = made()};
  setup.wanted_layers = 1;
  const auto begin = std::chrono::steady_clock::now();
  BenchWithin within{.bench = made()};
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  setup.wanted_layers = layers_within(seconds, most_seconds, wanted);
  within.has_fewer_layers = setup.wanted_layers < wanted;
  if (setup.wanted_layers == 1) return within;
  within.bench.reset();  // before the next one takes its memory
  within.bench = made();
  return within;
}

}  // namespace moetune
