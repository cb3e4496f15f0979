#include "tuner/targets/timed_engine.h"

#include <chrono>
#include <numeric>
#include <utility>

#include "tuner/targets/divergence.h"

namespace moetune {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

std::vector<double> clock_after_steps(double now_ms, double all_ms, std::span<const double> step_seconds) {
  const double steps_ms = 1e3 * std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0);
  now_ms += std::max(0.0, all_ms - steps_ms);
  std::vector<double> after;
  for (const double seconds : step_seconds) after.push_back(now_ms += 1e3 * seconds);
  return after;
}

TimedEngine::TimedEngine(Engine& engine, StepPrice price) : engine_(engine), price_(std::move(price)) {}

void TimedEngine::forward(std::span<const StepToken> step) {
  const Clock::time_point start = Clock::now();
  const std::span<const float> logits = engine_.forward(step);
  const auto vocabulary = static_cast<std::size_t>(engine_.spec().vocabulary);
  for (std::size_t row = 0; row + vocabulary <= logits.size(); row += vocabulary)
    most_likely(logits.subspan(row, vocabulary));
  now_ms_ += price_ ? price_(static_cast<int>(step.size())) : milliseconds_since(start);
}

std::vector<double> TimedEngine::decode(const DecodeRequest& request) {
  const Clock::time_point start = Clock::now();
  const Decoded decoded = engine_.decode(request);
  const double all_ms = milliseconds_since(start);
  std::vector<double> after;
  if (price_) {
    for (int step = 0; step < request.steps; ++step)
      after.push_back(now_ms_ += price_(static_cast<int>(request.first.size())));
    return after;
  }
  after = clock_after_steps(now_ms_, all_ms, decoded.step_seconds);
  if (!after.empty()) now_ms_ = after.back();
  return after;
}

}  // namespace moetune
