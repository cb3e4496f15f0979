// What became of each metric over time: the profiles and nightly checks below a folder, in the order in which
// they were measured. Start at read_history(); history_of() is the part without files.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/configuration.h"
#include "tuner/measurement.h"

namespace moetune {

struct HistoryPoint {
  std::string time;    // UTC, ISO 8601: sorts as text
  std::string source;  // file it comes from
  std::string model;
  std::string workload;
  std::string device;
  std::string build;
  std::string verdict;  // of a nightly check; empty: a search
  Configuration configuration;
  Metrics metrics;
};

// Points of one model, workload and device: what can be compared.
struct HistorySeries {
  std::string model;
  std::string workload;
  std::string device;
  std::vector<HistoryPoint> points;  // by time
};

struct History {
  std::vector<HistorySeries> series;  // by model, workload, device
  std::vector<std::string> left_out;  // files that hold no point of it, and why
};

std::vector<HistorySeries> history_of(std::vector<HistoryPoint> points);

// Run directories count once: by ci.json where there is one, otherwise by profile.json; a profile that a
// check refreshed counts as that check. Links are not followed. Files that cannot be read or say no time are
// named in left_out. Throws InputError when the folder is none or holds nothing.
History read_history(const std::string& folder);

nlohmann::json to_json_value(const History& history);

// Fewer rounds than have a 95 % interval: its ends are the range of all of them, which proves nothing.
bool has_too_few_rounds(const Measurement& measurement);

// What happened to a metric at a point that has it, since the last one before it that can be judged by.
struct MetricChange {
  std::size_t from = 0;  // indices into HistorySeries::points
  std::size_t to = 0;
  double ratio = 1.0;  // value over the earlier one; 0 where that was 0
  bool is_beyond_doubt =
      false;  // their 95 % intervals do not meet, or both are exact (no time is) and differ
};
std::vector<MetricChange> changes_of(const HistorySeries& series, const std::string& metric);

// Metrics that any point has, in the order of the metric table, then the unknown ones by name.
std::vector<std::string> metrics_in(const HistorySeries& series);

}  // namespace moetune
