#include "tuner/report/nightly_summary.h"

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"

namespace moetune {
namespace {

// "0.240 ms per token (0.234-0.251)"
std::string cell(const std::string& metric, const Metrics& metrics) {
  const auto found = metrics.find(metric);
  if (found == metrics.end()) return "";
  std::string text = value_text(metric, found->second.value);
  if (found->second.low && found->second.high)
    text += fmt::format(" ({})", interval_text(metric, *found->second.low, *found->second.high));
  return markdown_text(text);
}

std::string objective_table(const NightlyRecord& record) {
  const std::string& metric = record.input.objective.metric;
  std::string text =
      fmt::format("| | configuration | {0} then | {0} now | slowdown |\n| --- | --- | --- | --- | --- |\n",
                  markdown_text(metric));
  for (const NightlyPoint& point : record.input.points) {
    const std::string judged = !point.failure.empty() ? point.failure
                               : point.slowdown       ? slowdown_text(*point.slowdown)
                                                      : "not compared";
    text += fmt::format("| {} | {} | {} | {} | {} |\n", name_of(point.role),
                        markdown_code(point.configuration.key()), cell(metric, point.then),
                        cell(metric, point.now), markdown_text(judged));
  }
  return text + "\n";
}

// Everything else that is known of the baseline on both nights.
std::string metrics_table(const NightlyPoint& baseline) {
  std::string rows;
  for (const auto& [metric, now] : baseline.now)
    if (baseline.then.contains(metric))
      rows += fmt::format("| {} | {} | {} |\n", markdown_text(metric), cell(metric, baseline.then),
                          cell(metric, baseline.now));
  return rows.empty() ? "" : "| baseline's | then | now |\n| --- | --- | --- |\n" + rows + "\n";
}

}  // namespace

std::string to_markdown(const NightlyRecord& record) {
  std::string text =
      fmt::format("## moetune ci: {}\n\n{}, workload {}, on {}: {}\n\n", name_of(record.result.verdict),
                  markdown_text(record.model), markdown_text(record.workload), markdown_text(record.device),
                  markdown_text(record.result.reason));
  for (const std::string& remark : record.result.remarks) text += "- " + markdown_text(remark) + "\n";
  if (!record.result.remarks.empty()) text += "\n";
  if (!record.input.points.empty())
    text += objective_table(record) + metrics_table(record.input.points.front());
  return text + fmt::format("Baseline {}; build {}; {}; threshold {:.3g} %. Intervals are 95 %.\n",
                            markdown_code(record.baseline), markdown_code(record.build), record.started,
                            100.0 * record.input.threshold);
}

}  // namespace moetune
