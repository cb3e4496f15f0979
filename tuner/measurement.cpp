#include "tuner/measurement.h"

#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

// JSON has no NaN and no infinity: nlohmann would write null, which reads back as a broken log.
void put(json& object, const char* field, double value) {
  if (!std::isfinite(value))
    throw std::domain_error(std::string("a measurement's ") + field + " is not finite");
  object[field] = value;
}

Measurement measurement_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only(
      {"value", "low", "high", "p99", "n", "origin", "stopped", "processes", "throttled", "effective"});
  Measurement measurement;
  measurement.value = fields.number("value");
  if (fields.has("low")) measurement.low = fields.number("low");
  if (fields.has("high")) measurement.high = fields.number("high");
  if (fields.has("p99")) measurement.p99 = fields.number("p99");
  if (measurement.low.has_value() != measurement.high.has_value())
    refuse(where, "half an interval", "low and high together, or neither", fields.place("low"));
  if (measurement.low && measurement.high && *measurement.low > *measurement.high)
    refuse(where,
           "low " + std::to_string(*measurement.low) + " is above high " + std::to_string(*measurement.high),
           "low <= high", fields.place("low"));
  measurement.n = fields.integer("n", 0, INT64_MAX);
  attempt([&] { measurement.origin = origin_named(fields.text("origin"), fields.place("origin")); });
  measurement.stopped = fields.text_or("stopped", "");
  if (fields.has("processes")) measurement.processes = fields.integer("processes", 1, INT64_MAX);
  if (fields.has("throttled")) measurement.throttled = fields.integer("throttled", 0, INT64_MAX);
  if (fields.has("effective")) measurement.effective = fields.number("effective");
  return measurement;
}
}  // namespace

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::measured:
      return "measured";
    case Origin::predicted:
      return "predicted";
    case Origin::extrapolated:
      return "extrapolated";
  }
  throw std::logic_error("no such origin");
}

Origin origin_named(const std::string& name, const std::string& where) {
  for (const Origin origin : {Origin::measured, Origin::predicted, Origin::extrapolated})
    if (name == name_of(origin)) return origin;
  throw InputError(where, shown(name), "measured, predicted, extrapolated");
}

json to_json_value(const Measurement& measurement) {
  json object = json::object();
  put(object, "value", measurement.value);
  if (measurement.low) put(object, "low", *measurement.low);
  if (measurement.high) put(object, "high", *measurement.high);
  if (measurement.p99) put(object, "p99", *measurement.p99);
  object["n"] = measurement.n;
  object["origin"] = name_of(measurement.origin);
  if (!measurement.stopped.empty()) object["stopped"] = measurement.stopped;
  if (measurement.processes != 1) object["processes"] = measurement.processes;
  if (measurement.throttled != 0) object["throttled"] = measurement.throttled;
  if (measurement.effective) put(object, "effective", *measurement.effective);
  return object;
}

json to_json_value(const Metrics& metrics) {
  json object = json::object();
  for (const auto& [name, measurement] : metrics) object[name] = to_json_value(measurement);
  return object;
}

Metrics metrics_from_json(const json& object, const std::string& where) {
  const JsonFields fields(object, where);
  Metrics metrics;
  for (const auto& [name, value] : object.items())
    if (!value.is_null())
      metrics[name] = measurement_from_json(value, fields.place(name));  // null: not known here
  return metrics;
}

}  // namespace moetune
