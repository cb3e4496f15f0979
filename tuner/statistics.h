// Numbers from samples, with what is known about them. Nothing is assumed about the distribution: intervals
// of quantiles are pairs of order statistics with their exact binomial confidence (David and Nagaraja, Order
// Statistics, ch. 7), intervals of shares are Wilson's. Samples are taken as independent draws. Start at
// time_measurement(). Means over blocks of neighbouring text positions: targets/block_ratio.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tuner/measurement.h"

namespace moetune {

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

inline constexpr double usual_confidence = 0.95;

// Middle value; of an even number the mean of the two in the middle. At least one value.
double median(std::span<const double> values);

// The smallest value that at least a share p of the values do not exceed. At least one value; 0 < p < 1.
double quantile(std::span<const double> values, double p);

// Which order statistics (0 is the smallest) enclose the p-quantile of the distribution with at
// least the confidence, half of the doubt on either side. Empty: so few samples cannot say (median
// at 95 %: below 6; p99: below 368).
struct RankInterval {
  std::size_t low = 0;
  std::size_t high = 0;
};
std::optional<RankInterval> quantile_ranks(std::size_t count, double p, double confidence = usual_confidence);

std::optional<Interval> quantile_interval(std::span<const double> values, double p,
                                          double confidence = usual_confidence);
std::optional<Interval> median_interval(std::span<const double> values, double confidence = usual_confidence);

// The 95 % interval of the median of samples in the order they were taken in. As long as neighbours resemble
// each other no more than chance allows (correlation_time() is 1) it is median_interval(). Otherwise the
// series is cut into blocks of neighbours, each at least four correlation times long where there are so many
// samples, 5 to 8 blocks in all, and the medians of the blocks give it with Student's t (of values above 0:
// over their logarithms): what is alike stays within a block (batch means; Law and Kelton), never narrower
// than median_interval(). Empty: fewer than 6 samples.
struct SeriesInterval {
  std::optional<Interval> interval;
  double effective = 0.0;  // independent samples that tell as much about the median
};
SeriesInterval median_of_series(std::span<const double> in_order);

// The 99th percentile of samples in the order they were taken in, where they can tell it from a larger one:
// from 368 independent ones on. Slow tokens come together (all sequences of a step, all of a busy moment):
// samples beyond the percentile that stand beside each other count as correlation_time() says.
std::optional<double> p99(std::span<const double> in_order);

// 95 % interval of a share seen `successes` times in `count` (Wilson 1927). count >= 1.
Interval share_interval(std::int64_t successes, std::int64_t count);

// How many processes say enough about one machine: with 9 the second smallest and the second largest of their
// medians enclose the median with 96.1 %, so that one disturbed process on either side does no harm. (6 would
// do for 95 %, but then every outlier is an end of the interval.)
inline constexpr int usual_processes = 9;

// Several processes that measured the same, as one measurement. Two processes on one quiet machine differ by
// more than the noise within each (where memory came to lie, which core a thread got, the clock of that
// minute), so runs of one process are no independent draws: its interval says how well that process is known,
// not what the next one will give. The process is the unit here: the value is the median of their values, the
// interval that of their median, by order statistics (Georges, Buytaert and Eeckhout 2007; Kalibera and Jones
// 2013: repeat at the highest level that varies). Below 6 processes no such interval exists; from 2 on it is
// then the range of all their own intervals, which covers their spread but has no known confidence. In the
// order they were measured in: neighbours may resemble each other (median_of_series()). n is the sum, p99 the
// median of theirs. At least one.
Measurement over_processes(std::span<const Measurement> processes);

// Its interval is one at 95 %, not just a range; see over_processes().
bool has_known_confidence(const Measurement& measurement);

// Median, interval, p99 and n of times in the order they were taken in. At least one value; no interval
// below 6.
Measurement time_measurement(std::span<const double> values, const std::string& stopped);
// A count that is what it is: bytes, for example.
Measurement exact_measurement(double value);

}  // namespace moetune
