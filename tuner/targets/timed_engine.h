// An engine whose steps are timed: the clock of a run of a workload. Start at TimedEngine::forward() and
// decode().
//
// The clock goes on by what the engine's steps take, and by nothing else: what the host does between them
// (drawing requests, keeping lists) is no part of a run. Where a price is given the steps are not timed but
// cost what the price says: who waits for whom can then be told exactly, on a machine as busy as it likes.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace moetune {

// Milliseconds that a step of so many tokens counts; empty: what it takes by the clock.
using StepPrice = std::function<double(int tokens)>;

// The clock after each of some steps that took all_ms together, by the host's clock, and step_seconds each by
// the device's own, where it decodes on its own: the host's share comes before them.
std::vector<double> clock_after_steps(double now_ms, double all_ms, std::span<const double> step_seconds);

class TimedEngine {
 public:
  explicit TimedEngine(Engine& engine, StepPrice price = {});

  Engine& engine() { return engine_; }
  double now_ms() const { return now_ms_; }                        // since the run began
  void wait_until(double ms) { now_ms_ = std::max(now_ms_, ms); }  // counted, not waited for

  // One step; where a token wants logits the most likely next one is chosen too, as a server would before it
  // answers.
  void forward(std::span<const StepToken> step);

  // Steps in a row. Returns the clock after each of them; what the host spends before the first counts to it.
  std::vector<double> decode(const DecodeRequest& request);

 private:
  Engine& engine_;
  StepPrice price_;
  double now_ms_ = 0.0;
};

}  // namespace moetune
