#include "tuner/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

namespace moetune {
namespace {

void check_finite(double value) {
  if (!std::isfinite(value)) throw std::invalid_argument("a sample that is not finite");
}

// Noise of one sample from the steps between neighbours: a slow drift hardly shows in it, unlike in a
// deviation from the middle of the block.
double noise_of(std::span<const double> values) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i) steps.push_back(std::abs(values[i] - values[i - 1]));
  return 1.4826 * median(steps) / std::sqrt(2.0);  // as the standard deviation it would be if normal
}

}  // namespace

StopRule::StopRule(StopLimits limits)
    : limits_(limits), next_look_(std::max<std::int64_t>(1, limits.at_least)) {}

void StopRule::add(double value, double seconds) {
  check_finite(value);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
  seconds_ += seconds;
  if (done() || count() < limits_.at_least) return;
  // Looking after every sample and stopping at the first narrow interval favours the lucky
  // ones; a look each time the number has grown by a quarter keeps the confidence close to what
  // it says (simulated in the test).
  if (count() >= next_look_) {
    next_look_ = std::max(count() + 1, count() + count() / 4);
    if (is_narrow()) reason_ = "interval narrow";
  }
  if (!done() && count() >= limits_.at_most) reason_ = "samples enough";
  if (!done() && seconds_ >= limits_.seconds) reason_ = "time spent";
}

std::optional<Interval> StopRule::interval() const {
  const auto ranks = quantile_ranks(sorted_.size(), 0.5);
  if (!ranks) return std::nullopt;
  return Interval{sorted_[ranks->low], sorted_[ranks->high]};
}

double StopRule::median() const { return moetune::median(sorted_); }

bool StopRule::is_narrow() const {
  const auto found = interval();
  return found && found->high - found->low <= limits_.relative_width * std::abs(median());
}

WarmUp::WarmUp(std::int64_t block, std::int64_t at_most)
    : block_(std::max<std::int64_t>(3, block)), at_most_(at_most) {}

void WarmUp::add(double value) {
  check_finite(value);
  values_.push_back(value);
  // At the end of a block only: a look after every sample would stop at the first lucky one.
  if (steady() || count() < 2 * block_ || count() % block_ != 0) return;
  const auto block = static_cast<std::size_t>(block_);
  const auto both = std::span(values_).last(2 * block);
  // A block's median has about 1.25 deviations / sqrt(block) of noise, the difference of two 1.41 times that;
  // two of those are allowed. Identical samples have no noise at all and then must not differ at all.
  const double allowed =
      2.0 * 1.25 * std::sqrt(2.0) * noise_of(both) / std::sqrt(static_cast<double>(block_));
  if (std::abs(median(both.last(block)) - median(both.first(block))) <= allowed) {
    reason_ = "steady";
  } else if (count() >= at_most_) {
    reason_ = "still drifting";
  }
}

}  // namespace moetune
