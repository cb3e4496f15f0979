#include "tuner/report/against_default.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tuner/accuracy_gate.h"
#include "tuner/pareto.h"
#include "tuner/report/metric_column.h"

namespace moetune {
namespace {

bool meets_gate(const Trial& trial, const AccuracyGate& gate) {
  return gate.is_open || judge(trial.metrics, gate).verdict == GateVerdict::met;
}

std::optional<double> first_value(const Trial& trial, const RunReport& report) {
  const auto values = values_of(trial, std::span(report.objectives).first(1));
  if (!values) return std::nullopt;
  return values->front();
}

bool overlap(const Measurement& a, const Measurement& b) {
  return a.low.value_or(a.value) <= b.high.value_or(b.value) &&
         b.low.value_or(b.value) <= a.high.value_or(a.value);
}

}  // namespace

AgainstDefault against_default(const RunReport& report) {
  AgainstDefault result;
  if (report.trials.empty() || report.objectives.empty()) return result;
  const AccuracyGate& gate = gate_named(report.request.gate);
  const std::optional<double> usual = first_value(report.trial(0), report);
  std::optional<double> best;
  for (const Trial* trial : latest_ok_trials(report.trials)) {
    if (trial->configuration == report.trial(0).configuration || !meets_gate(*trial, gate)) continue;
    const std::optional<double> value = first_value(*trial, report);
    if (!value) continue;
    ++result.passing;
    if (!usual || *value >= *usual) continue;
    ++result.better;
    if (best && *best <= *value) continue;
    best = value;
    result.best = trial->number;
  }
  if (result.best) {
    const std::string& metric = report.objectives.front().metric;
    result.intervals_overlap =
        overlap(report.trial(*result.best).metrics.at(metric), report.trial(0).metrics.at(metric));
  }
  return result;
}

std::string against_default_words(const RunReport& report) {
  if (report.trials.empty()) return "Nothing has been measured yet.";
  if (report.objectives.empty()) return "";
  const std::string& metric = report.objectives.front().metric;
  const Trial& usual = report.trial(0);
  if (usual.outcome != Outcome::ok)
    return fmt::format(
        "The default configuration could not be measured ({}: {}), so there is nothing to compare with.",
        name_of(usual.outcome), usual.reason);
  if (!first_value(usual, report))
    return fmt::format("The default configuration has no {}, so there is nothing to compare with.", metric);

  const AgainstDefault found = against_default(report);
  const bool any = gate_named(report.request.gate).is_open;
  if (!found.best)
    return fmt::format("No configuration{} beats the default in {}{} ({} tried).",
                       any ? "" : fmt::format(" that meets the {} gate", report.request.gate), metric,
                       report.verdict.final_round ? " in the search" : "", found.passing);

  if (report.verdict.final_round)
    return fmt::format("In the search {} of {} configurations{} looked better than the default in {}.",
                       found.better, found.passing,
                       any ? "" : fmt::format(" that meet the {} gate", report.request.gate), metric);
  const MetricColumn column(metric, report.trials);
  const Trial& best = report.trial(*found.best);
  return fmt::format(
      "{} of {} configurations{} {} better than the default in {}; the best is trial {} with {} instead of "
      "{} {}{}.",
      found.better, found.passing, any ? "" : fmt::format(" that meet the {} gate", report.request.gate),
      found.better == 1 ? "is" : "are", metric, best.number, column.cell(best), column.cell(usual),
      column.unit(),
      found.intervals_overlap ? "; their intervals overlap, so the difference is not certain" : "");
}

}  // namespace moetune
