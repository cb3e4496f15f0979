// A night's check as a file: ci.json in its run directory. Renderers (report/junit.h, nightly_summary.h,
// annotations.h, nightly_prometheus.h) and the history read it from here. Start at NightlyRecord.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tuner/nightly_check.h"

namespace moetune {

struct NightlyRecord {
  std::string started;   // UTC, ISO 8601
  std::string baseline;  // file of the profile, as given
  std::string model;
  std::string workload;
  std::string device;  // "cpu" or the GPU's name
  std::string build;
  double seconds = 0.0;  // that the check took
  NightlyInput input;
  NightlyResult result;
};

nlohmann::json to_json_value(const NightlyRecord& record);

// What the history needs of it; other fields are checked by name only. Throws InputError.
struct NightlyEntry {
  std::string started;
  std::string model;
  std::string workload;
  std::string device;
  std::string build;
  std::string verdict;
  Configuration configuration;  // the baseline's
  Metrics metrics;              // of it, that night; empty: it was not measured
};
NightlyEntry nightly_entry_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
