// profile.json read: the fields one by one.
#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/accuracy_gate.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/possible_values.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

// Times or rates, all above 0.
std::vector<double> rounds_from(const JsonFields& fields) {
  std::vector<double> rounds;
  if (!fields.has("rounds")) return rounds;
  const json& list = fields.array("rounds");
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

Confirmation confirmation_from(const JsonFields& fields) {
  fields.only({"measured_at", "server", "model", "workload", "verdict", "reason", "evidence"});
  Confirmation confirmation{
      .measured_at = fields.text("measured_at"),
      .server = fields.text("server"),
      .model = fields.text("model"),
      .workload = fields.text("workload"),
      .verdict = fields.text("verdict"),
      .reason = fields.text("reason"),
      .evidence = evidence_of(metrics_from_json(fields.object("evidence"), fields.place("evidence")))};
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

}  // namespace

LaunchProfile launch_profile_from_json(const json& object, const std::string& where) {
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
  profile.measured_at = fields.text_or("measured_at", "");
  profile.reason = fields.text("reason");
  profile.gate = fields.text("gate");
  const auto gates = accuracy_gates();
  if (std::none_of(gates.begin(), gates.end(),
                   [&](const AccuracyGate& gate) { return gate.name == profile.gate; }))
    refuse(fields.place("gate"), shown(profile.gate), "lossless, int8, int4, none");
  profile.objectives = texts_from(fields, "objectives");
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
  return profile;
}

LaunchProfile load_launch_profile(const std::string& file) {
  return launch_profile_from_json(read_json_file(file), file);
}

}  // namespace moetune
