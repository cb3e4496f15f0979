#include "tuner/metric_history.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"
#include "tuner/nightly_record.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

HistoryPoint point_of(const LaunchProfile& profile, const std::string& file) {
  return {.time = profile.measured_at,
          .source = file,
          .model = profile.model,
          .workload = profile.workload.name,
          .device = profile.hardware.device,
          .build = profile.hardware.build,
          .verdict = "",
          .configuration = {profile.recommended.configuration},
          .metrics = metrics_of(profile.recommended)};
}

HistoryPoint point_of(const NightlyEntry& entry, const std::string& file) {
  return {.time = entry.started,
          .source = file,
          .model = entry.model,
          .workload = entry.workload,
          .device = entry.device,
          .build = entry.build,
          .verdict = entry.verdict,
          .configuration = entry.configuration,
          .metrics = entry.metrics};
}

// Empty: the document is of another kind. Throws InputError when it is of one of the two and wrong.
std::optional<HistoryPoint> point_in(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  if (!document.is_object()) return std::nullopt;
  if (document.contains("nightly")) return point_of(nightly_entry_from_json(document, file), file);
  if (document.contains("schema") && document.contains("evidence"))
    return point_of(launch_profile_from_json(document, file), file);
  return std::nullopt;
}

std::vector<std::string> json_files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
    if (entry.is_regular_file() && !entry.is_symlink() && entry.path().extension() == ".json")
      files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

// A count is what it is; a time that was taken once has no interval and proves nothing.
bool is_exact(const std::string& metric, const Measurement& measurement) {
  const MetricFacts* facts = find_metric(metric);
  const bool is_time = facts != nullptr && (facts->is_timed || facts->unit == "s");
  return !is_time && !measurement.low && measurement.stopped.empty();
}

bool is_apart(const std::string& metric, const Measurement& before, const Measurement& after) {
  if (has_too_few_rounds(before) || has_too_few_rounds(after)) return false;
  if (before.low && before.high && after.low && after.high)
    return *after.low > *before.high || *after.high < *before.low;
  return is_exact(metric, before) && is_exact(metric, after) && before.value != after.value;
}

// A profile that a check refreshed (--retune) repeats what the check measured, under its time.
void drop_what_checks_say(std::vector<HistoryPoint>& points) {
  std::set<std::tuple<std::string, std::string, std::string, std::string>> checked;
  const auto key = [](const HistoryPoint& point) {
    return std::tuple(point.time, point.model, point.workload, point.device);
  };
  for (const HistoryPoint& point : points)
    if (!point.verdict.empty()) checked.insert(key(point));
  std::erase_if(points, [&](const HistoryPoint& point) {
    return point.verdict.empty() && checked.contains(key(point));
  });
}

}  // namespace

std::vector<HistorySeries> history_of(std::vector<HistoryPoint> points) {
  std::ranges::stable_sort(points, {},
                           [](const HistoryPoint& point) { return std::tie(point.time, point.source); });
  std::map<std::tuple<std::string, std::string, std::string>, HistorySeries> series;
  for (HistoryPoint& point : points) {
    HistorySeries& own = series[{point.model, point.workload, point.device}];
    own.model = point.model;
    own.workload = point.workload;
    own.device = point.device;
    own.points.push_back(std::move(point));
  }
  std::vector<HistorySeries> all;
  for (auto& [key, own] : series) all.push_back(std::move(own));
  return all;
}

History read_history(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw InputError("--history", "'" + folder + "' is no folder", "a folder of profiles or run directories");
  const std::vector<std::string> files = json_files_below(folder);
  const std::set<std::string> known(files.begin(), files.end());
  History history;
  std::vector<HistoryPoint> points;
  for (const std::string& file : files) {
    const fs::path path(file);
    // The night's check says more than the choice that was made from it.
    if (path.filename() == "profile.json" && known.contains((path.parent_path() / "ci.json").string()))
      continue;
    try {
      std::optional<HistoryPoint> point = point_in(file);
      if (!point) continue;
      if (point->time.empty())
        history.left_out.push_back(file + ": says no time (measured_at)");
      else
        points.push_back(std::move(*point));
    } catch (const InputError& error) {
      history.left_out.push_back(error.what());
    }
  }
  drop_what_checks_say(points);
  history.series = history_of(std::move(points));
  if (history.series.empty())
    throw InputError("--history",
                     fmt::format("'{}' holds no profile and no check that says its time{}", folder,
                                 history.left_out.empty() ? "" : " (" + history.left_out.front() + ")"),
                     "a folder of profiles or run directories");
  return history;
}

nlohmann::json to_json_value(const History& history) {
  nlohmann::json series = nlohmann::json::array();
  for (const HistorySeries& own : history.series) {
    nlohmann::json points = nlohmann::json::array();
    for (const HistoryPoint& point : own.points)
      points.push_back({{"time", point.time},
                        {"source", point.source},
                        {"build", point.build},
                        {"verdict", point.verdict.empty() ? nlohmann::json() : nlohmann::json(point.verdict)},
                        {"configuration", to_json_value(point.configuration)},
                        {"metrics", to_json_value(point.metrics)}});
    series.push_back(
        {{"model", own.model}, {"workload", own.workload}, {"device", own.device}, {"points", points}});
  }
  return {{"series", series}, {"left_out", history.left_out}};
}

bool has_too_few_rounds(const Measurement& measurement) {
  return measurement.low && measurement.high && !has_known_confidence(measurement);
}

std::vector<MetricChange> changes_of(const HistorySeries& series, const std::string& metric) {
  std::vector<MetricChange> changes;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const auto now = series.points[i].metrics.find(metric);
    if (now == series.points[i].metrics.end()) continue;
    if (last) {
      const Measurement& before = series.points[*last].metrics.at(metric);
      changes.push_back({.from = *last,
                         .to = i,
                         .ratio = before.value == 0.0 ? 0.0 : now->second.value / before.value,
                         .is_beyond_doubt = is_apart(metric, before, now->second)});
    }
    // Behind a point that proves nothing a change is still one against the point before it.
    if (!last || !has_too_few_rounds(now->second)) last = i;
  }
  return changes;
}

std::vector<std::string> metrics_in(const HistorySeries& series) {
  std::set<std::string> present;
  for (const HistoryPoint& point : series.points)
    for (const auto& [metric, measurement] : point.metrics) present.insert(metric);
  std::vector<std::string> ordered;
  for (const MetricFacts& facts : known_metrics())
    if (present.erase(std::string(facts.name)) > 0) ordered.emplace_back(facts.name);
  ordered.insert(ordered.end(), present.begin(), present.end());
  return ordered;
}

}  // namespace moetune
