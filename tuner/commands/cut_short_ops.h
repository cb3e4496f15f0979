// Ops that 'measure --op' timed fewer times than was asked for, or not at all, as their time was spent.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "engine/bench/op_bench.h"

namespace moetune {

class CutShortOps {
 public:
  // runs: that were asked for.
  void add(const OpTiming& timing, int runs);
  bool all_untimed(std::size_t ops) const { return untimed_.size() == ops; }
  // "one run of moe at 4096 tokens takes 34.2 s"; of the first that was not timed.
  const std::string& first_untimed() const { return first_untimed_; }
  // For whoever reads the table; empty: every op was timed as often as was asked for.
  std::vector<std::string> notes(int runs, double budget_seconds) const;

 private:
  std::vector<std::string> fewer_runs_;
  std::vector<std::string> untimed_;
  std::string first_untimed_;
};

}  // namespace moetune
