#include "tuner/nightly_record.h"

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {
using nlohmann::json;

constexpr int schema_version = 1;

json to_json_value(const Slowdown& slowdown) {
  json object = {{"value", slowdown.value}, {"rounds", slowdown.rounds}};
  if (slowdown.interval) {
    object["low"] = slowdown.interval->low;
    object["high"] = slowdown.interval->high;
  }
  return object;
}

json to_json_value(const NightlyPoint& point) {
  json object = {{"role", name_of(point.role)},
                 {"configuration", to_json_value(point.configuration)},
                 {"then", to_json_value(point.then)},
                 {"now", to_json_value(point.now)}};
  if (point.slowdown) object["slowdown"] = to_json_value(*point.slowdown);
  if (point.over_baseline) object["over_baseline"] = to_json_value(*point.over_baseline);
  object["rounds_then"] = point.rounds_then;
  object["rounds_now"] = point.rounds_now;
  if (!point.rounds_beside.empty()) object["rounds_beside"] = point.rounds_beside;
  if (point.since_profile) object["since_profile"] = to_json_value(*point.since_profile);
  if (!point.failure.empty()) object["failure"] = point.failure;
  return object;
}

json to_json_value(const Staleness& staleness) {
  json differences = json::array();
  for (const FieldDifference& difference : staleness.differences)
    differences.push_back({{"field", difference.field}, {"then", difference.then}, {"now", difference.now}});
  return {{"rung", name_of(staleness.rung)},
          {"differences", differences},
          {"words", staleness.words(Asker::check)}};
}

}  // namespace

json to_json_value(const NightlyRecord& record) {
  json points = json::array();
  for (const NightlyPoint& point : record.input.points) points.push_back(to_json_value(point));
  return {{"nightly", schema_version},
          {"started", record.started},
          {"baseline", record.baseline},
          {"model", record.model},
          {"workload", record.workload},
          {"device", record.device},
          {"build", record.build},
          {"seconds", record.seconds},
          {"objective", record.input.objective.metric},
          {"threshold", record.input.threshold},
          {"gate", record.input.gate.name},
          {"verdict", name_of(record.result.verdict)},
          {"reason", record.result.reason},
          {"remarks", record.result.remarks},
          {"other_work", record.input.other_work},
          {"other_work_then", record.input.other_work_then},
          {"staleness", to_json_value(record.input.staleness)},
          {"points", points}};
}

NightlyEntry nightly_entry_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"nightly", "started", "baseline", "model", "workload", "device", "build", "seconds",
               "objective", "threshold", "gate", "verdict", "reason", "remarks", "other_work",
               "other_work_then", "staleness", "points"});
  fields.integer("nightly", schema_version, schema_version);
  NightlyEntry entry;
  entry.started = fields.text("started");
  entry.model = fields.text("model");
  entry.workload = fields.text("workload");
  entry.device = fields.text("device");
  entry.build = fields.text("build");
  entry.verdict = fields.text("verdict");
  const json& points = fields.array("points");
  for (std::size_t i = 0; i < points.size(); ++i) {
    const JsonFields point(points[i], fields.place("points") + "[" + std::to_string(i) + "]");
    point.only({"role", "configuration", "then", "now", "slowdown", "over_baseline", "rounds_then",
                "rounds_now", "rounds_beside", "since_profile", "failure"});
    if (point.text("role") != name_of(NightlyRole::baseline)) continue;
    entry.configuration =
        configuration_from_json(point.object("configuration"), point.place("configuration"));
    if (!point.has("failure")) entry.metrics = metrics_from_json(point.object("now"), point.place("now"));
  }
  return entry;
}

}  // namespace moetune
