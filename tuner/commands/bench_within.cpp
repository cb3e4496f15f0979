#include "tuner/commands/bench_within.h"

#include <algorithm>

#include "engine/bench/op_bench_model.h"
#include "engine/stopwatch.h"

namespace moetune {
namespace {

constexpr double timing_share = 0.25;  // of --budget, at least

}  // namespace

double most_making_seconds(double budget_seconds) { return (1.0 - timing_share) * budget_seconds; }

double most_timing_seconds(double budget_seconds, double making_seconds) {
  return std::max(budget_seconds - making_seconds, timing_share * budget_seconds);
}

int layers_within(double seconds_of_one, double most_seconds, int wanted) {
  const double layers = (most_seconds - seconds_of_one) / std::max(seconds_of_one, 1e-9);
  return layers >= wanted ? wanted : std::max(1, static_cast<int>(layers));
}

BenchWithin bench_within(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                         OpBenchSetup setup, double most_seconds) {
  const Stopwatch watch;
  BenchWithin within;
  const auto make = [&] {
    within.bench.reset();  // before the next one takes its memory
    within.bench = std::make_unique<OpBench>(checkpoint, options, setup);
    within.seconds = watch.seconds();
  };
  const bool may_have_fewer = most_seconds != kNoTimeLimit && checkpoint->spec().is_synthetic;
  const int wanted =
      may_have_fewer ? std::min(setup.wanted_layers, fitted(checkpoint, options, setup)->spec().layers) : 1;
  if (wanted > 1) setup.wanted_layers = 1;
  make();
  if (wanted == 1) return within;
  setup.wanted_layers = layers_within(within.seconds, most_seconds, wanted);
  within.has_fewer_layers = setup.wanted_layers < wanted;
  if (setup.wanted_layers == 1) return within;
  setup.most_seconds = kNoTimeLimit;  // the first one has shown how long it takes
  make();
  return within;
}

}  // namespace moetune
