// profile.json: a LaunchProfile made from a run, written and read. The schema is
// profiles/profile.schema.json.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/launch_profile.h"
#include "tuner/choose.h"
#include "tuner/pareto.h"

namespace moetune {

// What a profile says beside the choice itself.
struct ProfileContext {
  std::string model;
  std::string model_hash;
  HardwareFingerprint hardware;
  Workload workload;
  std::string gate;
  std::string space;
  std::string space_hash;
  std::string searcher;
  std::uint64_t seed = 1;
  Configuration default_configuration;
};

// recommendation: with a trial, otherwise std::invalid_argument. trials: all of the search.
LaunchProfile make_launch_profile(const ProfileContext& context, const Recommendation& recommendation,
                                  const ParetoFront& front, std::span<const Trial> trials);

// A trial as it stands in a profile.
ProfilePoint profile_point(const Trial& trial);
// What a trial measured as a profile holds it, sorted by metric, and back.
std::vector<Evidence> evidence_of(const Metrics& metrics);
Metrics metrics_of(std::span<const Evidence> evidence);
Metrics metrics_of(const ProfilePoint& point);

nlohmann::json to_json_value(const LaunchProfile& profile);
// Throws InputError for anything that the schema rejects, and for another schema version.
LaunchProfile launch_profile_from_json(const nlohmann::json& object, const std::string& where);
LaunchProfile load_launch_profile(const std::string& file);

}  // namespace moetune
