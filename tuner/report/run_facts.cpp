#include "tuner/report/run_facts.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/metric_facts.h"
#include "tuner/progress.h"

namespace moetune {
namespace {

void flatten(std::vector<NamedText>& rows, const std::string& name, const nlohmann::json& value) {
  if (value.is_object()) {
    for (const auto& [field, inner] : value.items())
      flatten(rows, name.empty() ? field : name + "." + field, inner);
    return;
  }
  rows.push_back({name, value.is_string()
                            ? value.get<std::string>()
                            : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
}

}  // namespace

std::vector<NamedText> flattened(const nlohmann::json& object) {
  std::vector<NamedText> rows;
  flatten(rows, "", object);
  return rows;
}

namespace {

// Empty: the calendar was left alone.
std::string clock_jumps(const RunReport& report) {
  std::string text;
  for (const std::vector<Trial>* trials : {&report.trials, &report.measured_again})
    for (const Trial& trial : *trials)
      if (trial.clock_jump_seconds)
        text += fmt::format("{}jumped by {:+.0f} s during trial {}{}", text.empty() ? "" : ", ",
                            *trial.clock_jump_seconds, trial.number, trial.turn ? " of the final round" : "");
  return text.empty() ? "" : text + "; times are taken with another clock";
}

}  // namespace

std::vector<NamedText> study_facts(const RunReport& report) {
  const RunRequest& request = report.request;
  double seconds = 0.0;
  for (const Trial& trial : report.trials) seconds += trial.seconds;
  for (const Trial& trial : report.measured_again) seconds += trial.seconds;
  for (const Trial& trial : report.recordings) seconds += trial.seconds;
  std::vector<NamedText> rows{{"model", request.model + ", content " + request.model_hash},
                              {"workload", request.workload},
                              {"search space", request.space + ", content " + request.space_hash},
                              {"searcher", request.searcher},
                              {"seed", std::to_string(request.seed)},
                              {"gate", request.gate},
                              {"limit (SLO)", request.slo.empty() ? "none" : request.slo},
                              {"trials", std::to_string(report.trials.size())},
                              {"turns of final rounds", std::to_string(report.measured_again.size())},
                              {"measuring time", duration_text(seconds)},
                              {"build", request.build}};
  if (!report.other_work.empty())
    rows.push_back(
        {"other work",
         fmt::format("{}: times are not this machine's alone; turns of one pass shared it, so that "
                     "their ratios hold",
                     fmt::join(report.other_work, ", "))});
  if (const std::string jumps = clock_jumps(report); !jumps.empty()) rows.push_back({"system clock", jumps});
  flatten(rows, "", request.conditions);
  return rows;
}

std::vector<std::string> resume_command(const RunReport& report) {
  std::vector<std::string> words = report.request.command;
  const auto has = [&](const std::string& option) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word == option || word.starts_with(option + "=");
    });
  };
  if (!has("--run")) words.insert(words.end(), {"--run", report.run_path});
  if (!has("--resume")) words.emplace_back("--resume");
  return words;
}

std::vector<MetricOrigins> metric_origins(std::span<const Trial> trials) {
  struct Seen {
    std::set<std::string> origins;
    std::set<std::string> stopped;
    std::int64_t least = INT64_MAX;
    std::int64_t most = 0;
    bool has_interval = false;
  };
  std::map<std::string, Seen> metrics;
  for (const Trial& trial : trials) {
    for (const auto& [name, measurement] : trial.metrics) {
      Seen& seen = metrics[name];
      seen.origins.insert(std::string(name_of(measurement.origin)));
      if (!measurement.stopped.empty()) seen.stopped.insert(measurement.stopped);
      seen.least = std::min(seen.least, measurement.n);
      seen.most = std::max(seen.most, measurement.n);
      seen.has_interval = seen.has_interval || measurement.low.has_value();
    }
  }
  std::vector<MetricOrigins> rows;
  for (const auto& [name, seen] : metrics) {
    const MetricFacts* facts = find_metric(name);
    rows.push_back({.name = name,
                    .meaning = facts == nullptr ? "" : std::string(facts->meaning),
                    .unit = facts == nullptr ? "" : std::string(facts->unit),
                    .origins = fmt::format("{}", fmt::join(seen.origins, "; ")),
                    .samples = seen.least == seen.most ? std::to_string(seen.least)
                                                       : fmt::format("{} to {}", seen.least, seen.most),
                    .has_interval = seen.has_interval,
                    .stopped = fmt::format("{}", fmt::join(seen.stopped, "; "))});
  }
  return rows;
}

}  // namespace moetune
