// Ops to be timed with weights that are made within a time: those of four layers of a published model may
// take a processor minutes. Start at bench_within().
#pragma once

#include <memory>

#include "engine/bench/op_bench.h"

namespace moetune {

struct BenchWithin {
  std::unique_ptr<OpBench> bench;
  bool has_fewer_layers = false;  // than setup wants and memory holds, for lack of time
  double seconds = 0.0;           // that it took
};

// --budget is one bound for weights, KV cache and timing: what is made before the first op may take three
// quarters of it, timing what that leaves. A quarter is for timing even where the weights of one layer, which
// cannot be fewer, take longer.
double most_making_seconds(double budget_seconds);
double most_timing_seconds(double budget_seconds, double making_seconds);

// How many layers can be made, of as many as are wanted, once one was made in that time: 1 or more.
int layers_within(double seconds_of_one, double most_seconds, int wanted);

// As OpBench's constructor, which throws. Makes one layer first, and all of them where that says that they
// are made in what that leaves of most_seconds. A checkpoint has the layers that it has; kNoTimeLimit: all at
// once.
BenchWithin bench_within(const std::shared_ptr<const Checkpoint>& checkpoint, const EngineOptions& options,
                         OpBenchSetup setup, double most_seconds);

}  // namespace moetune
