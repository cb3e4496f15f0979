#include "tuner/report/metric_column.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "tuner/metric_facts.h"

namespace moetune {
namespace {
constexpr std::array everyday_metrics{"tpot_ms",        "ttft_ms",       "tokens_per_s", "kl_mean",
                                      "top1_agreement", "output_snr_db", "device_bytes"};

const Measurement* find(const Trial& trial, const std::string& metric) {
  const auto found = trial.metrics.find(metric);
  return found == trial.metrics.end() ? nullptr : &found->second;
}
}  // namespace

MetricColumn::MetricColumn(std::string metric, std::span<const Trial> trials) : metric_(std::move(metric)) {
  const MetricFacts* facts = find_metric(metric_);
  unit_ = facts == nullptr ? "" : std::string(facts->unit);
  if (unit_ == "share") {
    unit_ = "%";
    scale_ = 100.0;
  } else if (unit_ == "bytes") {
    double largest = 0.0;
    for (const Trial& trial : trials)
      if (const Measurement* measured = find(trial, metric_))
        largest = std::max(largest, std::abs(measured->value));
    for (const auto& [unit, size] :
         {std::pair{"GiB", 0x1p30}, std::pair{"MiB", 0x1p20}, std::pair{"KiB", 0x1p10}}) {
      if (largest < size) continue;
      unit_ = unit;
      scale_ = 1.0 / size;
      break;
    }
  }
}

std::string MetricColumn::heading() const {
  return unit_.empty() ? metric_ : fmt::format("{} ({})", metric_, unit_);
}

std::string MetricColumn::number(double value) const {
  const double scaled = value * scale_;
  const double size = std::abs(scaled);
  if (size == 0.0) return "0";
  if (size >= 1e7 || size < 1e-3) return fmt::format("{:.1e}", scaled);
  // Three significant digits, and four where the first one is a 1: 101 and 103 may be the whole point.
  const int exponent = static_cast<int>(std::floor(std::log10(size)));
  const bool starts_with_one = size / std::pow(10.0, exponent) < 2.0;
  return fmt::format("{:.{}f}", scaled, std::max(0, (starts_with_one ? 3 : 2) - exponent));
}

std::string MetricColumn::interval_cell(const Trial& trial, const char* to) const {
  const Measurement* measured = find(trial, metric_);
  if (measured == nullptr) return "-";
  std::string text = number(measured->value);
  if (measured->low && measured->high)
    text += fmt::format(" ({})", joined_ends(*measured->low * scale_, number(*measured->low),
                                             *measured->high * scale_, number(*measured->high), to));
  if (measured->origin != Origin::measured) text += fmt::format(" {}", name_of(measured->origin));
  return text;
}

std::string MetricColumn::cell(const Trial& trial) const { return interval_cell(trial, " to "); }
std::string MetricColumn::short_cell(const Trial& trial) const { return interval_cell(trial, "-"); }

std::vector<MetricColumn> objective_columns(const RunReport& report) {
  std::vector<MetricColumn> columns;
  for (const Objective& objective : report.objectives) columns.emplace_back(objective.metric, report.trials);
  return columns;
}

std::vector<MetricColumn> report_columns(const RunReport& report) {
  std::vector<MetricColumn> columns = objective_columns(report);
  for (const char* metric : everyday_metrics) {
    const bool is_there = std::any_of(columns.begin(), columns.end(),
                                      [&](const MetricColumn& column) { return column.metric() == metric; });
    const bool is_known = std::any_of(report.trials.begin(), report.trials.end(),
                                      [&](const Trial& trial) { return find(trial, metric) != nullptr; });
    if (!is_there && is_known) columns.emplace_back(metric, report.trials);
  }
  return columns;
}

Knobs knobs_of(std::span<const Trial> trials) {
  std::map<std::string, std::set<std::string>> values;
  for (const Trial& trial : trials)
    for (const auto& [name, value] : trial.configuration.values) values[name].insert(value);
  Knobs knobs;
  for (const auto& [name, seen] : values) {
    if (seen.size() > 1) {
      knobs.varied.push_back(name);
    } else {
      knobs.fixed.values[name] = *seen.begin();
    }
  }
  return knobs;
}

std::string varied_text(const Configuration& configuration, const Knobs& knobs) {
  Configuration varied;
  for (const auto& [name, value] : configuration.values)
    if (!knobs.fixed.values.contains(name)) varied.values[name] = value;
  return varied.values.empty() ? configuration.key() : varied.key();
}

}  // namespace moetune
