// What an agent's tools do to the machine: between two rounds every core works for a while on memory of its
// own, and what the engine had in the processor's caches is gone. Start at ToolWork::run().
//
// A tool gap is played short: this much of it is really waited for, and really busy; the rest is not waited
// for at all (reports/decisions/0014-loads.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/device.h"

namespace moetune {

class ToolWork {
 public:
  // The least that is played of a gap; more only where the caches are so large that going through them once
  // takes longer.
  static constexpr double played_seconds = 0.02;

  // gap_seconds: a tool that takes less than played_seconds is played whole.
  void run(double gap_seconds);
  std::int64_t runs() const { return runs_; }
  std::size_t bytes() const { return memory_.size(); }  // gone through by each run; 0 before the first

 private:
  std::unique_ptr<Cpu> cpu_;  // all cores this process may use, whatever the engine is held to
  std::vector<std::uint8_t> memory_;
  std::int64_t runs_ = 0;
};

}  // namespace moetune
