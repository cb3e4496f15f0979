// A number with what is known about it: every number in any output says where it came from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace moetune {

enum class Origin : std::uint8_t { measured, predicted, extrapolated };
std::string_view name_of(Origin origin);
Origin origin_named(const std::string& name, const std::string& where);  // throws InputError

struct Measurement {
  double value = 0.0;         // median for times, mean for accuracy; unit is in the metric's name
  std::optional<double> low;  // 95 % interval
  std::optional<double> high;
  std::optional<double> p99;  // only where n allows it
  std::int64_t n = 0;         // samples behind it
  Origin origin = Origin::measured;
  std::string stopped;  // why measuring ended: "interval narrow", "time spent", ...; empty for exact counts
  std::int64_t throttled =
      0;  // samples left out because the machine was throttled while they were taken; no part of n
  std::optional<double> effective = std::nullopt;  // independent samples, or processes where there are
                                                   // several, that tell as much; empty: all
  std::int64_t processes = 1;                      // in how many it was measured anew; see over_processes()
};

// Metric name -> value. A metric that is null (not known here) is absent.
using Metrics = std::map<std::string, Measurement>;

// A value that is not finite has no JSON: to_json_value throws std::domain_error
// (such a trial is wrong_output).
nlohmann::json to_json_value(const Measurement& measurement);
nlohmann::json to_json_value(const Metrics& metrics);
Metrics metrics_from_json(const nlohmann::json& object, const std::string& where);  // throws InputError

}  // namespace moetune
