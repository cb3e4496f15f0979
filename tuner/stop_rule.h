// When to stop measuring, as an object with two verbs that can be tested with invented numbers: add() and
// done(). It looks at no clock: whoever measures says how long a sample took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/statistics.h"

namespace moetune {

struct StopLimits {
  double relative_width = 0.05;   // of the median's 95 % interval: (high - low) / median
  std::int64_t at_least = 16;     // samples before the interval is looked at
  std::int64_t at_most = 100000;  // samples
  double seconds = 30.0;          // spent on samples; 0 or less: stop after at_least
};

class StopRule {
 public:
  explicit StopRule(StopLimits limits);

  // value: what is measured; seconds: what this sample cost. In the order they were taken: neighbours that resemble each other
  // count as fewer. Values that are not finite are a caller's mistake (std::invalid_argument).
  void add(double value, double seconds);
  // A sample that does not count took that long.
  void leave_out(double seconds);
  bool done() const { return !reason_.empty(); }
  // "interval narrow", "time spent", "samples enough"; empty while going on.
  const std::string& reason() const { return reason_; }

  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  // Empty while there are too few independent samples for one; see median_of_series().
  std::optional<Interval> interval() const;
  double median() const;  // of at least one sample

 private:
  bool is_narrow() const;

  StopLimits limits_;
  std::vector<double> values_;
  double seconds_ = 0.0;
  std::int64_t next_look_;
  std::string reason_;
};

// When the start is over: times fall while caches, clocks and branch predictors settle, so the first samples say nothing about
// the rest. Steady as soon as the last two blocks or more show no change of level (change_point.h); what lies before the last
// change belongs to the start.
class WarmUp {
 public:
  // block: samples between two looks (at least 3), two blocks are the least that is called steady; at_most: samples after which
  // it ends whatever they do (reason() says so).
  explicit WarmUp(std::int64_t block = 5, std::int64_t at_most = 100);

  void add(double value);
  bool steady() const { return !reason_.empty(); }
  // "steady", "still drifting"; empty while going on.
  const std::string& reason() const { return reason_; }
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }

 private:
  std::int64_t block_;
  std::int64_t at_most_;
  std::vector<double> values_;
  std::size_t begin_ = 0;  // behind the last change of level
  std::string reason_;
};

}  // namespace moetune
