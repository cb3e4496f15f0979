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

// Median distance from the median, as the standard deviation it would have if normal.
double robust_deviation(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  return 1.4826 * median(distances);
}

}  // namespace

StopRule::StopRule(StopLimits limits)
    : limits_(limits), next_look_(std::max<std::int64_t>(1, limits.at_least)) {}

void StopRule::add(double value, double seconds) {
  check_finite(value);
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), value), value);
  seconds_ += seconds;
  if (done() || count() < limits_.at_least) return;
  // Looking after every sample and stopping at the first narrow interval favours the lucky ones; a look each
  // time the number has grown by a quarter keeps the confidence close to what it says (simulated in the
  // test).
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
  if (steady() || count() < 2 * block_) return;
  const auto block = static_cast<std::size_t>(block_);
  const auto last = std::span(values_).last(block);
  const auto before = std::span(values_).last(2 * block).first(block);
  // A block's median has about 1.25 deviations / sqrt(block) of noise, the difference of two 1.41 times that;
  // two of those are allowed. Identical samples have no noise at all and then must not differ at all.
  const double deviation = std::max(robust_deviation(last), robust_deviation(before));
  const double noise = 2.0 * 1.25 * std::sqrt(2.0) * deviation / std::sqrt(static_cast<double>(block_));
  if (std::abs(median(last) - median(before)) <= noise) {
    reason_ = "steady";
  } else if (count() >= at_most_) {
    reason_ = "still drifting";
  }
}

}  // namespace moetune
