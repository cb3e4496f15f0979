// profile.json read: the fields one by one, then whether they can be of one search. Start at
// launch_profile_from_json().
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/accuracy_gate.h"
#include "tuner/counted.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"
#include "tuner/objective.h"
#include "tuner/possible_values.h"
#include "tuner/problems.h"
#include "tuner/utc_time.h"

namespace moetune {
namespace {
using nlohmann::json;

// Times or rates, all above 0.
std::vector<double> rounds_from(const JsonFields& fields) {
  std::vector<double> rounds;
  if (!fields.has("rounds")) return rounds;
  const json& list = fields.array("rounds");
  if (list.empty())
    refuse(fields.place("rounds"), "[]", "one number per pass; no field where it was not in a final round");
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_number() && list[i].get<double>() > 0.0)
      rounds.push_back(list[i].get<double>());
    else
      refuse(fields.place("rounds") + "[" + std::to_string(i) + "]", shown(list[i]), "a number above 0");
  }
  return rounds;
}

// Of a point's fields; the object may have more.
ProfilePoint point_from(const JsonFields& fields) {
  Trial trial;
  trial.number = fields.integer("trial", 0, INT64_MAX);
  trial.configuration =
      configuration_from_json(fields.object("configuration"), fields.place("configuration"));
  check_knob_values(trial.configuration.values, fields.place("configuration"));
  trial.metrics = metrics_from_json(fields.object("evidence"), fields.place("evidence"));
  check_possible(trial.metrics, fields.place("evidence"));
  ProfilePoint point = profile_point(trial);
  point.rounds = rounds_from(fields);
  return point;
}

ProfilePoint point_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"trial", "configuration", "evidence", "rounds"});
  return point_from(fields);
}

std::vector<std::string> texts_from(const JsonFields& fields, const char* name) {
  std::vector<std::string> texts;
  const json& list = fields.array(name);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].is_string())
      texts.push_back(list[i].get<std::string>());
    else
      refuse(fields.place(name) + "[" + std::to_string(i) + "]", shown(list[i]), "a text");
  }
  return texts;
}

// At least one, at most what a search takes; each a metric of which one direction is better.
std::vector<std::string> objectives_from(const JsonFields& fields) {
  std::vector<std::string> objectives = texts_from(fields, "objectives");
  const std::string place = fields.place("objectives");
  if (objectives.empty() || objectives.size() > most_objectives)
    refuse(place, shown(fields.array("objectives")), fmt::format("1 to {} metrics", most_objectives));
  std::vector<std::string_view> known;
  for (const MetricFacts& facts : known_metrics())
    if (facts.direction != Direction::neither) known.push_back(facts.name);
  for (std::size_t i = 0; i < objectives.size(); ++i)
    if (std::ranges::find(known, objectives[i]) == known.end())
      refuse(fmt::format("{}[{}]", place, i), shown(objectives[i]),
             fmt::format("{}", fmt::join(known, ", ")));
  return objectives;
}

std::string time_from(const JsonFields& fields) {
  std::string time = fields.text("measured_at");
  if (!is_utc(time))
    refuse(fields.place("measured_at"), shown(time), "UTC in ISO 8601, such as 2026-11-29T16:46:39Z");
  return time;
}

Confirmation confirmation_from(const JsonFields& fields) {
  fields.only({"measured_at", "server", "model", "workload", "verdict", "reason", "evidence"});
  Confirmation confirmation{
      .measured_at = time_from(fields),
      .server = fields.text("server"),
      .model = fields.text("model"),
      .workload = fields.text("workload"),
      .verdict = fields.text("verdict"),
      .reason = fields.text("reason"),
      .evidence = evidence_of(metrics_from_json(fields.object("evidence"), fields.place("evidence")))};
  check_possible(metrics_of(confirmation.evidence), fields.place("evidence"));
  const auto& verdict = confirmation.verdict;
  if (verdict != "confirmed" && verdict != "refuted" && verdict != "indeterminate")
    refuse(fields.place("verdict"), shown(verdict), "confirmed, refuted, indeterminate");
  return confirmation;
}

void check_schema(const JsonFields& fields) {
  const std::int64_t schema = fields.integer("schema", 1, INT64_MAX);
  if (schema != LaunchProfile::schema_version)
    throw InputError(
        fields.place("schema"), std::to_string(schema),
        std::to_string(LaunchProfile::schema_version) + ": this program is too old or too new for it");
}

void read_study(LaunchProfile& profile, const JsonFields& fields) {
  fields.only({"space", "space_hash", "searcher", "seed"});
  profile.space = fields.text("space");
  profile.space_hash = fields.text("space_hash");
  profile.searcher = fields.text("searcher");
  profile.seed = fields.unsigned_integer("seed");
}

void read_final_round(LaunchProfile& profile, const JsonFields& fields) {
  fields.only({"passes", "tolerance", "metric", "ratio_to_default"});
  profile.final_passes = fields.integer("passes", 1, INT64_MAX);
  if (fields.has("tolerance")) {
    profile.tolerance = fields.number("tolerance");
    if (*profile.tolerance < 0.0) refuse(fields.place("tolerance"), shown(*profile.tolerance), "0 or more");
  }
  if (!fields.has("ratio_to_default")) return;
  const std::string metric = fields.text("metric");
  const json ratio{{metric, fields.object("ratio_to_default")}};
  profile.ratio_to_default = evidence_of(metrics_from_json(ratio, fields.place("ratio_to_default"))).front();
}

// Points stand in several parts of a profile. One configuration is one trial, wherever it stands.
void check_trials(const LaunchProfile& profile, const JsonFields& fields) {
  std::vector<std::pair<std::string, const ProfilePoint*>> points;
  for (std::size_t i = 0; i < profile.front.size(); ++i)
    points.emplace_back(fmt::format("{}[{}].trial", fields.place("front"), i), &profile.front[i]);
  points.emplace_back(fields.place("trial"), &profile.recommended);
  if (profile.default_point) points.emplace_back(fields.place("default") + ".trial", &*profile.default_point);
  if (profile.runner_up) points.emplace_back(fields.place("runner_up") + ".trial", &*profile.runner_up);
  for (auto later = points.begin(); later != points.end(); ++later)
    for (auto earlier = points.begin(); earlier != later; ++earlier) {
      const ProfilePoint& one = *earlier->second;
      const ProfilePoint& other = *later->second;
      if ((one.trial == other.trial) == (one.configuration == other.configuration)) continue;
      refuse(later->first, std::to_string(other.trial),
             one.trial == other.trial
                 ? "another number: trial " + std::to_string(one.trial) + " has another configuration"
                 : fmt::format("{}, the trial with this configuration", one.trial));
      return;  // one mistake makes several pairs differ
    }
}

// The recommended one was there in every pass. Profiles of earlier builds keep no rounds.
void check_rounds(const LaunchProfile& profile, const JsonFields& fields) {
  const std::int64_t rounds = std::ssize(profile.recommended.rounds);
  if (rounds > 0 && profile.final_passes == 0)
    refuse(fields.place("rounds"), counted(profile.recommended.rounds.size(), "round"),
           "none without a final_round");
  else if (rounds > 0 && profile.final_passes > rounds)
    refuse(fields.place("final_round") + ".passes", std::to_string(profile.final_passes),
           fmt::format("at most {}, the number of rounds", rounds));
}

}  // namespace

LaunchProfile launch_profile_from_json(const json& object, const std::string& where) {
  const ProblemList* const problems = ProblemList::collecting();
  const std::size_t earlier = problems == nullptr ? 0 : problems->messages().size();
  const JsonFields fields(object, where);
  check_schema(fields);
  fields.only({"schema",        "model",    "hardware",  "workload",    "trial",
               "configuration", "evidence", "reason",    "gate",        "objectives",
               "front",         "default",  "runner_up", "final_round", "synthetic_weights",
               "confirmations", "study",    "rounds",    "measured_at", "other_work"});
  LaunchProfile profile;
  const JsonFields model(fields.object("model"), fields.place("model"));
  model.only({"name", "hash"});
  profile.model = model.text("name");
  profile.model_hash = model.text("hash");
  profile.hardware = hardware_from_json(fields.object("hardware"), fields.place("hardware"));
  if (fields.has("other_work")) profile.other_work = texts_from(fields, "other_work");
  profile.workload = workload_from_json(fields.object("workload"), fields.place("workload"));

  profile.recommended = point_from(fields);
  if (fields.has("measured_at")) profile.measured_at = time_from(fields);
  profile.reason = fields.text("reason");
  profile.gate = fields.text("gate");
  const auto gates = accuracy_gates();
  if (std::none_of(gates.begin(), gates.end(),
                   [&](const AccuracyGate& gate) { return gate.name == profile.gate; }))
    refuse(fields.place("gate"), shown(profile.gate), "lossless, int8, int4, none");
  profile.objectives = objectives_from(fields);
  const json& front = fields.array("front");
  for (std::size_t i = 0; i < front.size(); ++i)
    profile.front.push_back(point_from_json(front[i], fields.place("front") + "[" + std::to_string(i) + "]"));
  if (object.contains("default"))
    profile.default_point = point_from_json(fields.object("default"), fields.place("default"));
  if (object.contains("runner_up")) {
    const JsonFields runner_up(fields.object("runner_up"), fields.place("runner_up"));
    runner_up.only({"trial", "configuration", "evidence", "rounds", "why_not"});
    profile.runner_up = point_from(runner_up);
    profile.why_not_runner_up = runner_up.text("why_not");
  }
  if (object.contains("final_round"))
    read_final_round(profile, JsonFields(fields.object("final_round"), fields.place("final_round")));
  profile.synthetic_weights = fields.flag("synthetic_weights");
  if (object.contains("confirmations")) {
    const json& list = fields.array("confirmations");
    for (std::size_t i = 0; i < list.size(); ++i)
      profile.confirmations.push_back(confirmation_from(
          JsonFields(list[i], fields.place("confirmations") + "[" + std::to_string(i) + "]")));
  }
  read_study(profile, JsonFields(fields.object("study"), fields.place("study")));
  // Fields that are wrong left stand-ins, of which no two agree.
  if (problems != nullptr && problems->messages().size() > earlier) return profile;
  check_trials(profile, fields);
  check_rounds(profile, fields);
  return profile;
}

LaunchProfile load_launch_profile(const std::string& file) {
  return launch_profile_from_json(read_json_file(file), file);
}

}  // namespace moetune
