#include "tuner/stop_rule.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "tuner/change_point.h"

namespace moetune {
namespace {

void check_finite(double value) {
  if (!std::isfinite(value)) throw std::invalid_argument("a sample that is not finite");
}

// Of a change that is none: it costs a block of samples more, a change not seen costs a wrong measurement.
constexpr double change_doubt = 0.2;

}  // namespace

StopRule::StopRule(StopLimits limits)
    : limits_(limits), next_look_(std::max<std::int64_t>(1, limits.at_least)) {}

void StopRule::add(double value, double seconds) {
  check_finite(value);
  values_.push_back(value);
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

void StopRule::leave_out(double seconds) {
  seconds_ += seconds;
  if (!done() && count() >= limits_.at_least && seconds_ >= limits_.seconds) reason_ = "time spent";
}

std::optional<Interval> StopRule::interval() const { return median_of_series(values_).interval; }

double StopRule::median() const { return moetune::median(values_); }

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
  if (steady() || count() % block_ != 0) return;
  const auto fewest = static_cast<std::size_t>(2 * block_);
  while (values_.size() - begin_ >= fewest && !steady()) {
    if (const auto change = change_point(std::span(values_).subspan(begin_), change_doubt)) {
      begin_ += *change;
    } else {
      reason_ = "steady";
    }
  }
  if (!steady() && count() >= at_most_) reason_ = "still drifting";
}

}  // namespace moetune
