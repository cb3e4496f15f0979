#include "tuner/targets/energy_window.h"

#include <algorithm>

#include <fmt/core.h>

namespace moetune {

void EnergyWindow::add(double joules, std::int64_t tokens) {
  tokens_ += tokens;
  longest_run_ = std::max(longest_run_, tokens);
  const bool moved = last_joules_ && joules > *last_joules_;
  last_joules_ = joules;
  if (!moved) return;
  ++jumps_;
  last_ = {joules, tokens_};
  if (!first_) first_ = last_;
}

std::optional<Measurement> EnergyWindow::joules_per_token() const {
  if (jumps_ < fewest_jumps) return std::nullopt;
  const double joules = last_.joules - first_->joules;
  const std::int64_t tokens = last_.tokens - first_->tokens;
  Measurement measurement;
  measurement.value = joules / static_cast<double>(tokens);
  measurement.low = joules / static_cast<double>(tokens + longest_run_);
  if (tokens > longest_run_) measurement.high = joules / static_cast<double>(tokens - longest_run_);
  if (!measurement.high) measurement.low.reset();  // an interval has two ends
  measurement.n = tokens;
  return measurement;
}

std::string EnergyWindow::reason() const {
  return fmt::format("the GPU's energy counter moved in {} runs of the window, fewer than {}", jumps_,
                     fewest_jumps);
}

}  // namespace moetune
