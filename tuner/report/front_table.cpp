#include "tuner/report/front_table.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"

namespace moetune {
namespace {
using nlohmann::json;

// The front, and the default beside it when it is not on it.
std::vector<std::int64_t> shown_trials(const RunReport& report) {
  std::vector<std::int64_t> numbers = report.front;
  if (!report.trials.empty() && std::find(numbers.begin(), numbers.end(), 0) == numbers.end())
    numbers.push_back(0);
  return numbers;
}

std::string unit_of(const std::string& metric) {
  const MetricFacts* facts = find_metric(metric);
  return facts == nullptr ? "" : std::string(facts->unit);
}

json final_round_json(const RunReport& report) {
  if (!report.verdict.final_round) return {};
  json finalists = json::array();
  for (const Finalist& finalist : report.verdict.final_round->finalists)
    finalists.push_back({{"trial", finalist.trial},
                         {"metrics", to_json_value(finalist.metrics)},
                         {"ratio", finalist.ratio ? to_json_value(*finalist.ratio) : json()},
                         {"failure", finalist.failure}});
  const auto control = against_itself(*report.verdict.final_round);
  return {{"passes", report.verdict.final_round->passes},
          {"control", control ? to_json_value(*control) : json()},
          {"load_seconds", report.verdict.final_round->load_seconds},
          {"seconds", report.verdict.final_round->seconds},
          {"objective", report.objectives.front().metric},
          {"ratio_to", report.verdict.final_round->finalists.front().trial},
          {"finalists", finalists}};
}

json number_or_null(const std::optional<std::int64_t>& number) { return number ? json(*number) : json(); }

}  // namespace

std::string to_csv(const RunReport& report) {
  const std::vector<std::int64_t> numbers = shown_trials(report);
  std::set<std::string> knobs;
  std::set<std::string> metrics;
  for (const std::int64_t number : numbers) {
    for (const auto& [name, value] : report.trial(number).configuration.values) knobs.insert(name);
    for (const auto& [name, measurement] : report.trial(number).metrics) metrics.insert(name);
  }

  std::string csv = "trial,role,outcome";
  for (const std::string& knob : knobs) csv += "," + csv_field(knob);
  for (const std::string& metric : metrics) {
    const std::string unit = unit_of(metric);
    csv += "," + csv_field(unit.empty() ? metric : fmt::format("{} ({})", metric, unit));
    for (const char* part : {"low", "high", "p99", "n", "origin"})
      csv += "," + csv_field(fmt::format("{} {}", metric, part));
  }
  csv += "\r\n";

  const auto exact = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  for (const std::int64_t number : numbers) {
    const Trial& trial = report.trial(number);
    csv += fmt::format("{},{},{}", number, csv_field(report.role_of(number)), name_of(trial.outcome));
    for (const std::string& knob : knobs) {
      const auto found = trial.configuration.values.find(knob);
      csv += "," + (found == trial.configuration.values.end() ? "" : csv_field(found->second));
    }
    for (const std::string& metric : metrics) {
      const auto found = trial.metrics.find(metric);
      if (found == trial.metrics.end()) {
        csv += ",,,,,,";
        continue;
      }
      const Measurement& measured = found->second;
      csv += fmt::format(",{},{},{},{},{},{}", exact(measured.value), exact(measured.low),
                         exact(measured.high), exact(measured.p99), measured.n, name_of(measured.origin));
    }
    csv += "\r\n";
  }
  return csv;
}

json to_front_json(const RunReport& report) {
  json objectives = json::array();
  for (const Objective& objective : report.objectives)
    objectives.push_back({{"metric", objective.metric},
                          {"unit", unit_of(objective.metric)},
                          {"direction", objective.maximize ? "maximize" : "minimize"}});
  json points = json::array();
  for (const std::int64_t number : shown_trials(report)) {
    const Trial& trial = report.trial(number);
    const bool is_on_front =
        std::find(report.front.begin(), report.front.end(), number) != report.front.end();
    points.push_back({{"trial", number},
                      {"on_front", is_on_front},
                      {"role", report.role_of(number)},
                      {"configuration", to_json_value(trial.configuration)},
                      {"outcome", name_of(trial.outcome)},
                      {"metrics", to_json_value(trial.metrics)}});
  }
  return {{"schema", 1},
          {"model", report.request.model},
          {"model_hash", report.request.model_hash},
          {"workload", report.request.workload},
          {"gate", report.request.gate},
          {"objectives", objectives},
          {"default", report.trials.empty() ? json() : json(0)},
          {"recommended", number_or_null(report.verdict.recommended)},
          {"reason", report.verdict.reason},
          {"caution", report.verdict.caution},
          {"final_round", final_round_json(report)},
          {"runner_up", number_or_null(report.verdict.runner_up)},
          {"why_not_runner_up", report.verdict.why_not_runner_up},
          {"points", points}};
}

}  // namespace moetune
