// How a metric is written in a table: the unit stands in the heading, once, and every cell is in it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tuner/report/run_report.h"

namespace moetune {

class MetricColumn {
 public:
  // The unit suits the largest value among these trials (bytes become KiB, MiB or GiB).
  MetricColumn(std::string metric, std::span<const Trial> trials);

  const std::string& metric() const { return metric_; }
  const std::string& unit() const { return unit_; }  // "ms per token", "MiB", "%", "nats"
  double scale() const { return scale_; }            // from the metric's own number to the one in this unit
  std::string heading() const;                       // "tpot_ms (ms per token)"
  std::string number(double value) const;            // "1.23"
  std::string cell(const Trial& trial) const;        // "1.23 (1.20 to 1.25)"; "-" when it is not known
  std::string short_cell(const Trial& trial) const;  // "1.23 (1.20-1.25)"

 private:
  std::string interval_cell(const Trial& trial, const char* to) const;
  std::string metric_;
  std::string unit_;
  double scale_ = 1.0;
};

// The objectives, then what the accuracy gates look at and the other everyday metrics, as far as a trial has
// them.
std::vector<MetricColumn> report_columns(const RunReport& report);
// The objectives alone.
std::vector<MetricColumn> objective_columns(const RunReport& report);

// Knobs that have more than one value among the trials, and those that do not.
struct Knobs {
  std::vector<std::string> varied;
  Configuration fixed;
};
Knobs knobs_of(std::span<const Trial> trials);

// The configuration without what is the same everywhere: "expert_quant=int8 top_k=7".
std::string varied_text(const Configuration& configuration, const Knobs& knobs);

}  // namespace moetune
