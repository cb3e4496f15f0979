#include "tuner/report/nightly_prometheus.h"

#include <initializer_list>
#include <optional>
#include <utility>

#include "tuner/report/prometheus.h"

namespace moetune {
namespace {

using Labels = PrometheusText::Labels;

Labels with(Labels labels, std::initializer_list<std::pair<std::string, std::string>> more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

void add_bounds(PrometheusText& text, const char* name, const char* help, const Labels& labels, double value,
                const std::optional<double>& low, const std::optional<double>& high) {
  text.add(name, help, with(labels, {{"bound", "value"}}), value);
  if (low) text.add(name, help, with(labels, {{"bound", "low"}}), *low);
  if (high) text.add(name, help, with(labels, {{"bound", "high"}}), *high);
}

void add_point(PrometheusText& text, const Labels& labels, const NightlyPoint& point) {
  if (point.slowdown) {
    const auto& interval = point.slowdown->interval;
    add_bounds(text, "moetune_ci_slowdown_ratio",
               "Share by which the objective is worse than in the baseline, with its 95 % interval.", labels,
               point.slowdown->value, interval ? std::optional(interval->low) : std::nullopt,
               interval ? std::optional(interval->high) : std::nullopt);
  }
  for (const auto& [name, measurement] : point.now)
    add_bounds(text, "moetune_ci_metric",
               "What was measured, with its 95 % interval; units are in the metric's name.",
               with(labels, {{"metric", name}}), measurement.value, measurement.low, measurement.high);
}

}  // namespace

std::string to_prometheus(const NightlyRecord& record) {
  const Labels labels = {{"model", record.model}, {"workload", record.workload}, {"device", record.device}};
  PrometheusText text;
  for (const NightlyVerdict each :
       {NightlyVerdict::ok, NightlyVerdict::regression, NightlyVerdict::indeterminate, NightlyVerdict::stale})
    text.add("moetune_ci_verdict", "1 for the verdict that holds, 0 for the others.",
             with(labels, {{"verdict", std::string(name_of(each))}}),
             each == record.result.verdict ? 1.0 : 0.0);
  for (const NightlyPoint& point : record.input.points)
    add_point(text, with(labels, {{"role", std::string(name_of(point.role))}}), point);
  text.add("moetune_ci_threshold_ratio", "The slowdown that has to be found.", labels,
           record.input.threshold);
  text.add("moetune_ci_duration_seconds", "That the check took.", labels, record.seconds);
  return text.text();
}

}  // namespace moetune
