#include "tuner/launch_profile.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tuner/accuracy_gate.h"
#include "tuner/json_facts.h"

namespace moetune {
namespace {
using nlohmann::json;

Evidence one_evidence(const std::string& metric, const Measurement& measurement) {
  return {metric,
          measurement.value,
          measurement.low,
          measurement.high,
          measurement.p99,
          measurement.n,
          std::string(name_of(measurement.origin)),
          measurement.stopped,
          measurement.processes};
}

ProfilePoint point_of(const Trial& trial) {
  return {trial.number, trial.configuration.values, evidence_of(trial.metrics)};
}

// With the times of the final round, where it was in it.
ProfilePoint point_of(const Trial& trial, const std::optional<FinalRound>& round) {
  const Finalist* finalist = round ? round->find(trial.number) : nullptr;
  if (finalist == nullptr || !finalist->failure.empty()) return point_of(trial);
  Trial last = trial;
  last.metrics = with_final_times(trial.metrics, *finalist);
  return point_of(last);
}

const Trial& trial_numbered(std::span<const Trial> trials, std::int64_t number) {
  const auto found =
      std::find_if(trials.begin(), trials.end(), [&](const Trial& each) { return each.number == number; });
  if (found == trials.end())
    throw std::invalid_argument("trial " + std::to_string(number) + " is not in the log");
  return *found;
}

Measurement measurement_of(const Evidence& evidence) {
  Measurement measurement;
  measurement.value = evidence.value;
  measurement.low = evidence.low;
  measurement.high = evidence.high;
  measurement.p99 = evidence.p99;
  measurement.n = evidence.n;
  measurement.origin = origin_named(evidence.origin, "evidence");
  measurement.stopped = evidence.stopped;
  measurement.processes = evidence.processes;
  return measurement;
}

json to_json_value(const ProfilePoint& point) {
  json object = {{"trial", point.trial},
                 {"configuration", to_json_value(Configuration{point.configuration})},
                 {"evidence", to_json_value(metrics_of(point))}};
  if (!point.rounds.empty()) object["rounds"] = point.rounds;
  return object;
}

json to_json_value(const Confirmation& confirmation) {
  return {{"measured_at", confirmation.measured_at},
          {"server", confirmation.server},
          {"model", confirmation.model},
          {"workload", confirmation.workload},
          {"verdict", confirmation.verdict},
          {"reason", confirmation.reason},
          {"evidence", to_json_value(metrics_of(confirmation.evidence))}};
}

}  // namespace

LaunchProfile make_launch_profile(const ProfileContext& context, const Recommendation& recommendation,
                                  const ParetoFront& front, std::span<const Trial> trials) {
  if (!recommendation.trial) throw std::invalid_argument("a profile of no recommendation");
  LaunchProfile profile;
  profile.model = context.model;
  profile.model_hash = context.model_hash;
  profile.hardware = context.hardware;
  profile.workload = context.workload;
  const Trial& recommended = trial_numbered(trials, *recommendation.trial);
  const std::optional<FinalRound>& round = recommendation.final_round;
  profile.recommended = point_of(recommended, round);
  profile.reason =
      recommendation.caution + (recommendation.caution.empty() ? "" : " ") + recommendation.reason;
  profile.gate = context.gate;
  for (const Objective& objective : front.objectives) profile.objectives.push_back(objective.metric);
  for (const Trial& trial : front.trials) profile.front.push_back(point_of(trial));
  for (const Trial* trial : latest_ok_trials(trials))
    if (trial->configuration == context.default_configuration)
      profile.default_point = point_of(*trial, round);
  if (recommendation.runner_up) {
    profile.runner_up = point_of(trial_numbered(trials, *recommendation.runner_up), round);
    profile.why_not_runner_up = recommendation.why_not_runner_up;
  }
  if (round) {
    profile.final_passes = round->passes;
    profile.tolerance = recommendation.tolerance;
    const Finalist* finalist = round->find(recommended.number);
    if (finalist != nullptr && finalist->ratio && profile.default_point &&
        round->finalists.front().trial == profile.default_point->trial)
      profile.ratio_to_default = one_evidence(front.objectives.front().metric, *finalist->ratio);
  }
  profile.synthetic_weights = is_synthetic(recommended.metrics);
  profile.space = context.space;
  profile.space_hash = context.space_hash;
  profile.searcher = context.searcher;
  profile.seed = context.seed;
  return profile;
}

std::vector<Evidence> evidence_of(const Metrics& metrics) {
  std::vector<Evidence> evidence;
  for (const auto& [metric, measurement] : metrics) evidence.push_back(one_evidence(metric, measurement));
  return evidence;
}

Metrics metrics_of(std::span<const Evidence> evidence) {
  Metrics metrics;
  for (const Evidence& each : evidence) metrics[each.metric] = measurement_of(each);
  return metrics;
}

Metrics metrics_of(const ProfilePoint& point) { return metrics_of(point.evidence); }

ProfilePoint profile_point(const Trial& trial) { return point_of(trial); }

std::vector<ProfilePoint> points_of(const LaunchProfile& profile) {
  std::vector<ProfilePoint> points = profile.front;
  const auto add = [&](const ProfilePoint& point) {
    if (std::ranges::find(points, point.trial, &ProfilePoint::trial) == points.end()) points.push_back(point);
  };
  add(profile.recommended);
  if (profile.default_point) add(*profile.default_point);
  if (profile.runner_up) add(*profile.runner_up);
  return points;
}

json to_json_value(const LaunchProfile& profile) {
  json object = to_json_value(profile.recommended);
  object["schema"] = LaunchProfile::schema_version;
  if (!profile.measured_at.empty()) object["measured_at"] = profile.measured_at;
  object["model"] = {{"name", profile.model}, {"hash", profile.model_hash}};
  object["hardware"] = to_json_value(profile.hardware);
  if (!profile.other_work.empty()) object["other_work"] = profile.other_work;
  object["workload"] = to_json_value(profile.workload);
  object["reason"] = profile.reason;
  object["gate"] = profile.gate;
  object["objectives"] = profile.objectives;
  object["front"] = json::array();
  for (const ProfilePoint& point : profile.front) object["front"].push_back(to_json_value(point));
  if (profile.default_point) object["default"] = to_json_value(*profile.default_point);
  if (profile.runner_up) {
    object["runner_up"] = to_json_value(*profile.runner_up);
    object["runner_up"]["why_not"] = profile.why_not_runner_up;
  }
  if (profile.final_passes > 0) {
    object["final_round"] = {{"passes", profile.final_passes}};
    if (profile.tolerance) object["final_round"]["tolerance"] = *profile.tolerance;
    if (profile.ratio_to_default) {
      object["final_round"]["metric"] = profile.ratio_to_default->metric;
      object["final_round"]["ratio_to_default"] = to_json_value(measurement_of(*profile.ratio_to_default));
    }
  }
  object["synthetic_weights"] = profile.synthetic_weights;
  for (const Confirmation& confirmation : profile.confirmations)
    object["confirmations"].push_back(to_json_value(confirmation));
  object["study"] = {{"space", profile.space},
                     {"space_hash", profile.space_hash},
                     {"searcher", profile.searcher},
                     {"seed", profile.seed}};
  return object;
}

}  // namespace moetune
