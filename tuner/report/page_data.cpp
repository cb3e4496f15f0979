#include "tuner/report/page_data.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"
#include "tuner/accuracy_gate.h"
#include "tuner/hypervolume.h"
#include "tuner/metric_facts.h"
#include "tuner/report/metric_column.h"

namespace moetune {
namespace {
using nlohmann::json;

constexpr std::string_view cache_size = "expert_cache";  // hit rate and step time are drawn against it

// Places in the lists that a trial refers to.
class Index {
 public:
  std::size_t of(const std::string& text) {
    const auto [found, is_new] = places_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> texts_;
};

json rounded(double value) {
  return std::isfinite(value) ? json(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr)) : json();
}

json rounded(const std::optional<double>& value) { return value ? rounded(*value) : json(); }

const char* name_of(Direction direction) {
  switch (direction) {
    case Direction::smaller_is_better:
      return "smaller";
    case Direction::larger_is_better:
      return "larger";
    case Direction::neither:
      return "neither";
  }
  return "neither";
}

// [value, low, high, n, p99, origin, stopped]; what is missing at the end is left out.
json compact(const Measurement& measurement, Index& stopped) {
  json cells = {rounded(measurement.value), rounded(measurement.low),
                rounded(measurement.high),  measurement.n,
                rounded(measurement.p99),   name_of(measurement.origin)};
  if (!measurement.stopped.empty()) cells.push_back(stopped.of(measurement.stopped));
  while (cells.back().is_null() || cells.back() == "measured") cells.erase(cells.size() - 1);
  return cells;
}

std::vector<std::string> metrics_of(const RunReport& report) {
  std::vector<std::string> names;  // objectives first, then by name
  std::set<std::string> others;
  for (const Objective& objective : report.objectives) names.push_back(objective.metric);
  for (const Trial& trial : report.trials)
    for (const auto& [name, measurement] : trial.metrics)
      if (std::find(names.begin(), names.end(), name) == names.end()) others.insert(name);
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

json described_metrics(const RunReport& report, const std::vector<std::string>& names) {
  json list = json::array();
  for (const std::string& name : names) {
    const MetricFacts* facts = find_metric(name);
    const MetricColumn column(name, report.trials);
    const auto objective = std::find_if(report.objectives.begin(), report.objectives.end(),
                                        [&](const Objective& each) { return each.metric == name; });
    const Direction known = facts == nullptr ? Direction::neither : facts->direction;
    list.push_back({{"name", name},
                    {"unit", column.unit()},
                    {"scale", column.scale()},
                    {"better", objective == report.objectives.end() ? name_of(known)
                               : objective->maximize                ? "larger"
                                                                    : "smaller"},
                    {"meaning", facts == nullptr ? "" : std::string(facts->meaning)}});
  }
  return list;
}

bool is_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(value);
}

// Numbers by size, then texts by name.
bool comes_before(const std::string& a, const std::string& b) {
  double x = 0.0;
  double y = 0.0;
  const bool a_is_number = is_number(a, x);
  const bool b_is_number = is_number(b, y);
  if (a_is_number && b_is_number) return x < y;
  return a_is_number != b_is_number ? a_is_number : a < b;
}

json described_knobs(const std::map<std::string, std::vector<std::string>>& values) {
  json list = json::array();
  for (const auto& [name, seen] : values) {
    const auto known =
        std::find_if(knobs().begin(), knobs().end(), [&](const Knob& knob) { return knob.name == name; });
    list.push_back({{"name", name},
                    {"meaning", known == knobs().end() ? "" : std::string(known->meaning)},
                    {"is_cache_size", name == cache_size},
                    {"values", seen}});
  }
  return list;
}

json final_round(const RunReport& report, Index& stopped) {
  if (!report.verdict.final_round) return {};
  json finalists = json::array();
  for (const Finalist& finalist : report.verdict.final_round->finalists) {
    json metrics = json::object();
    for (const auto& [name, measurement] : finalist.metrics) metrics[name] = compact(measurement, stopped);
    finalists.push_back({{"trial", finalist.trial},
                         {"metrics", metrics},
                         {"ratio", finalist.ratio ? compact(*finalist.ratio, stopped) : json()},
                         {"failure", finalist.failure}});
  }
  return {{"passes", report.verdict.final_round->passes}, {"finalists", finalists}};
}

json number_or_null(const std::optional<std::int64_t>& number) { return number ? json(*number) : json(); }

// How `measure` is asked for one configuration under the conditions of this run; the settings follow.
json measure_words(const RunReport& report) {
  json words = {"moetune", "measure"};
  const std::vector<std::string>& typed = report.request.command;
  for (const char* option :
       {"--model", "--workload", "--device", "--threads", "--device-memory", "--calibration"}) {
    const std::string name = option;
    for (std::size_t i = 0; i < typed.size(); ++i) {
      if (typed[i].starts_with(name + "=")) words.push_back(typed[i]);
      if (typed[i] == name && i + 1 < typed.size()) words.insert(words.end(), {name, typed[i + 1]});
    }
  }
  return words;
}

json flags_json(const RunReport& report) {
  json trials = json::object();
  for (const auto& [trial, servers] : report.flags) {
    json list = json::array();
    for (const PointFlags& flags : servers)
      list.push_back({{"server", flags.server},
                      {"name", flags.name},
                      {"text", flags.text},
                      {"lost", flags.lost},
                      {"problem", flags.problem}});
    trials[std::to_string(trial)] = list;
  }
  return trials;
}

}  // namespace

json page_data(const RunReport& report) {
  const std::vector<std::string> metrics = metrics_of(report);
  std::map<std::string, std::vector<std::string>> values;
  for (const Trial& trial : report.trials) {
    for (const auto& [name, value] : trial.configuration.values) {
      std::vector<std::string>& seen = values[name];
      if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(value);
    }
  }
  for (auto& [name, seen] : values) std::sort(seen.begin(), seen.end(), comes_before);

  Index reasons;
  Index stopped;
  const AccuracyGate& gate = gate_named(report.request.gate);
  const std::set<std::int64_t> front(report.front.begin(), report.front.end());
  std::map<std::int64_t, std::string> not_recorded;
  for (const Trial& recording : report.recordings)
    if (recording.metrics.empty()) not_recorded[recording.number] = recording.reason;
  json trials = json::array();
  for (const Trial& trial : report.trials) {
    json entry = {{"trial", trial.number}, {"seconds", rounded(trial.seconds)}, {"started", trial.started}};
    json choices = json::array();
    for (const auto& [name, seen] : values) {
      const auto value = trial.configuration.values.find(name);
      choices.push_back(value == trial.configuration.values.end()
                            ? -1
                            : std::find(seen.begin(), seen.end(), value->second) - seen.begin());
    }
    entry["choices"] = choices;
    if (trial.outcome != Outcome::ok) {
      entry["outcome"] = name_of(trial.outcome);
      entry["reason"] = reasons.of(trial.reason);
    } else {
      json cells = json::array();
      for (const std::string& metric : metrics) {
        const auto measured = trial.metrics.find(metric);
        cells.push_back(measured == trial.metrics.end() ? json() : compact(measured->second, stopped));
      }
      entry["metrics"] = cells;
      const GateVerdict verdict = judge(trial.metrics, gate).verdict;
      entry["gate"] = verdict == GateVerdict::met      ? "met"
                      : verdict == GateVerdict::missed ? "missed"
                                                       : "unknown";
    }
    if (front.contains(trial.number)) entry["front"] = true;
    if (const auto why = not_recorded.find(trial.number); why != not_recorded.end())
      entry["not_recorded"] = reasons.of(why->second);
    trials.push_back(std::move(entry));
  }

  json volumes = json::array();
  for (const double volume : hypervolume_history(report.objectives, report.trials))
    volumes.push_back(rounded(volume));
  json objectives = json::array();
  for (const Objective& objective : report.objectives) objectives.push_back(objective.metric);
  json document = {{"model", report.request.model},
                   {"workload", report.request.workload},
                   {"gate", report.request.gate},
                   {"objectives", objectives},
                   {"metrics", described_metrics(report, metrics)},
                   {"knobs", described_knobs(values)},
                   {"trials", trials},
                   {"hypervolume", volumes},
                   {"final_round", final_round(report, stopped)},
                   {"recommended", number_or_null(report.verdict.recommended)},
                   {"runner_up", number_or_null(report.verdict.runner_up)},
                   {"measure", measure_words(report)}};
  document["run"] = report.run_path;
  document["flags"] = flags_json(report);
  document["reasons"] = reasons.texts();
  document["stopped"] = stopped.texts();
  return document;
}

}  // namespace moetune
