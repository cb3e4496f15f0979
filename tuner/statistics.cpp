#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "tuner/autocorrelation.h"
#include "tuner/student_t.h"

namespace moetune {
namespace {

// Cumulative binomial probabilities, k rising from the first that matters.
class BinomialSum {
 public:
  BinomialSum(std::size_t count, double p) : count_(static_cast<double>(count)), odds_(p / (1.0 - p)) {
    // Twelve standard deviations below the mean there is less than 1e-30. Starting at k = 0 would underflow.
    const double start = count_ * p - 12.0 * std::sqrt(count_ * p * (1.0 - p)) - 1.0;
    k_ = std::max(0.0, std::floor(start));
    const double log_choose =
        std::lgamma(count_ + 1.0) - std::lgamma(k_ + 1.0) - std::lgamma(count_ - k_ + 1.0);
    term_ = std::exp(log_choose + k_ * std::log(p) + (count_ - k_) * std::log1p(-p));
    sum_ = term_;
  }
  double k() const { return k_; }
  double at_most_k() const { return sum_; }
  bool at_end() const { return k_ >= count_; }
  void next() {
    term_ *= (count_ - k_) / (k_ + 1.0) * odds_;
    k_ += 1.0;
    sum_ += term_;
  }

 private:
  double count_;
  double odds_;
  double k_ = 0.0;
  double term_ = 0.0;
  double sum_ = 0.0;
};

// How many of the smallest order statistics may be passed with a probability of `doubt` of passing the
// quantile: the largest r for which P(B <= r - 1) <= doubt.
std::size_t ranks_to_spare(std::size_t count, double p, double doubt) {
  BinomialSum sum(count, p);
  while (sum.at_most_k() <= doubt && !sum.at_end()) sum.next();
  return static_cast<std::size_t>(sum.k());
}

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double median_of_sorted(const std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

std::optional<Interval> interval_of_sorted(const std::vector<double>& values, double p, double confidence) {
  const auto ranks = quantile_ranks(values.size(), p, confidence);
  if (!ranks) return std::nullopt;
  return Interval{values[ranks->low], values[ranks->high]};
}

void set_interval(Measurement& measurement, const std::optional<Interval>& interval) {
  if (!interval) return;
  measurement.low = interval->low;
  measurement.high = interval->high;
}

double quantile_of_sorted(const std::vector<double>& values, double p) {
  const double rank =
      std::ceil(p * static_cast<double>(values.size()) - 1e-9);  // 0.99 * 100 is a little above 99
  const auto index = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(index, values.size() - 1)];
}

// Student's t over the medians of blocks. What is above 0 by nature differs by factors, and its interval ends
// above 0 as well.
Interval around_block_medians(std::vector<double> medians, double middle, bool are_positive) {
  if (are_positive)
    for (double& value : medians) value = std::log(value);
  const auto n = static_cast<double>(medians.size());
  const double mean = std::accumulate(medians.begin(), medians.end(), 0.0) / n;
  double squares = 0.0;
  for (const double value : medians) squares += (value - mean) * (value - mean);
  const double reach = student_t_975(std::ssize(medians) - 1) * std::sqrt(squares / (n - 1.0) / n);
  if (are_positive) return {middle * std::exp(-reach), middle * std::exp(reach)};
  return {middle - reach, middle + reach};
}

// Independent samples that tell as much about the p-quantile: what counts for it is on which side each one
// lies.
double effective_at(std::span<const double> in_order, double p, double at) {
  constexpr double chance = 2.0;  // standard deviations of the first lag
  if (!quantile_ranks(in_order.size(), p)) return static_cast<double>(in_order.size());
  std::vector<double> beyond;
  beyond.reserve(in_order.size());
  for (const double value : in_order) beyond.push_back(value >= at ? 1.0 : 0.0);
  return static_cast<double>(in_order.size()) / correlation_time(beyond, chance);
}

}  // namespace

double median(std::span<const double> values) { return median_of_sorted(sorted(values)); }

double quantile(std::span<const double> values, double p) { return quantile_of_sorted(sorted(values), p); }

std::optional<RankInterval> quantile_ranks(std::size_t count, double p, double confidence) {
  const double doubt = (1.0 - confidence) / 2.0;
  // From above it is the same question about the (1 - p)-quantile.
  const std::size_t below = ranks_to_spare(count, p, doubt);
  const std::size_t above = ranks_to_spare(count, 1.0 - p, doubt);
  if (count == 0 || below == 0 || above == 0) return std::nullopt;
  return RankInterval{below - 1, count - above};
}

std::optional<Interval> quantile_interval(std::span<const double> values, double p, double confidence) {
  return interval_of_sorted(sorted(values), p, confidence);
}

std::optional<Interval> median_interval(std::span<const double> values, double confidence) {
  return quantile_interval(values, 0.5, confidence);
}

SeriesInterval median_of_series(std::span<const double> in_order) {
  constexpr double block_in_times = 4.0;
  constexpr double fewest_blocks = 5.0;
  constexpr double most_blocks = 8.0;
  const double time = correlation_time(in_order);
  SeriesInterval result{.interval = {}, .effective = static_cast<double>(in_order.size()) / time};
  if (time == 1.0) {
    result.interval = median_interval(in_order);
    return result;
  }
  const auto count =
      static_cast<std::size_t>(std::clamp(result.effective / block_in_times, fewest_blocks, most_blocks));
  std::vector<double> medians;
  for (std::size_t block = 0; block < count; ++block) {
    const std::size_t first = in_order.size() * block / count;
    medians.push_back(median(in_order.subspan(first, in_order.size() * (block + 1) / count - first)));
  }
  const double middle = median(in_order);
  const Interval blocks = around_block_medians(medians, middle, std::ranges::min(in_order) > 0.0);
  // Never narrower than of independent samples: a correlation may make few blocks agree by luck.
  const Interval free = median_interval(in_order).value_or(Interval{middle, middle});
  result.interval = Interval{std::min(free.low, blocks.low), std::max(free.high, blocks.high)};
  return result;
}

std::optional<double> p99(std::span<const double> in_order) {
  if (in_order.empty()) return std::nullopt;
  const double value = quantile(in_order, 0.99);
  const double effective = std::floor(effective_at(in_order, 0.99, value) + 1e-9);
  if (!quantile_ranks(static_cast<std::size_t>(effective), 0.99)) return std::nullopt;
  return value;
}

Interval share_interval(std::int64_t successes, std::int64_t count) {
  constexpr double z = 1.959963984540054;  // 97.5 % quantile of the normal distribution
  const auto n = static_cast<double>(count);
  const double share = static_cast<double>(successes) / n;
  const double scale = 1.0 / (1.0 + z * z / n);
  const double centre = scale * (share + z * z / (2.0 * n));
  const double reach = scale * z * std::sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n));
  return {std::max(0.0, centre - reach), std::min(1.0, centre + reach)};
}

Measurement time_measurement(std::span<const double> values, const std::string& stopped) {
  const std::vector<double> ordered = sorted(values);
  Measurement measurement;
  measurement.value = median_of_sorted(ordered);
  const SeriesInterval series = median_of_series(values);
  set_interval(measurement, series.interval);
  if (series.effective < static_cast<double>(values.size())) measurement.effective = series.effective;
  measurement.p99 = p99(values);
  measurement.n = static_cast<std::int64_t>(ordered.size());
  measurement.stopped = stopped;
  return measurement;
}

Measurement over_processes(std::span<const Measurement> processes) {
  if (processes.size() == 1) return processes.front();
  Measurement all;
  all.n = 0;
  std::vector<double> values;
  std::vector<double> ends;
  std::vector<double> tails;
  std::set<std::string> reasons;
  for (const Measurement& one : processes) {
    values.push_back(one.value);
    if (one.low && one.high) ends.insert(ends.end(), {*one.low, *one.high});
    if (one.p99) tails.push_back(*one.p99);
    if (!one.stopped.empty()) reasons.insert(one.stopped);
    all.n += one.n;
    all.throttled += one.throttled;
    if (one.origin != Origin::measured) all.origin = one.origin;
  }
  all.value = median(values);
  const SeriesInterval series = median_of_series(values);
  if (series.effective < static_cast<double>(values.size())) all.effective = series.effective;
  if (series.interval) {
    set_interval(all, series.interval);
  } else if (ends.size() == 2 * processes.size()) {
    all.low = *std::min_element(ends.begin(), ends.end());
    all.high = *std::max_element(ends.begin(), ends.end());
  }
  if (tails.size() == processes.size()) all.p99 = median(tails);
  for (const std::string& reason : reasons) all.stopped += (all.stopped.empty() ? "" : "; ") + reason;
  all.processes = static_cast<std::int64_t>(processes.size());
  return all;
}

bool has_known_confidence(const Measurement& measurement) {
  if (!measurement.low || !measurement.high) return false;
  return measurement.processes == 1 ||
         quantile_ranks(static_cast<std::size_t>(measurement.processes), 0.5).has_value();
}

Measurement exact_measurement(double value) {
  Measurement measurement;
  measurement.value = value;
  measurement.n = 1;
  return measurement;
}

}  // namespace moetune
