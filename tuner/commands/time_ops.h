// Ops timed one after the other within a time that all of them share. Start at time_ops().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/bench/op_bench.h"

namespace moetune {

struct OpsToTime {
  std::vector<std::string> ops;
  std::vector<std::int64_t> tokens;
  int runs = 1;  // of each
  double most_seconds = kNoTimeLimit;
};

struct OpListeners {
  std::function<void(const std::string& words)> before;  // what is timed next
  std::function<void()> after;
};

// One timing for each op with each number of tokens, in this order. Each may take as long as what is left
// allows all that wait; without runs: nothing was left, or not enough. The first is tried in any case.
std::vector<OpTiming> time_ops(OpBench& bench, const OpsToTime& what, const OpListeners& listeners);

}  // namespace moetune
