// One try of one configuration: the unit of the log. Failure is a value with a reason, never time = infinity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "tuner/configuration.h"
#include "tuner/measurement.h"

namespace moetune {

enum class Outcome : std::uint8_t { ok, infeasible, out_of_memory, wrong_output, timed_out, crashed };
std::string_view name_of(Outcome outcome);
Outcome outcome_named(std::string_view name,
                      const std::string& where);  // throws InputError with the accepted names

struct Trial {
  std::int64_t number = 0;  // 0, 1, 2 ... in the order they were asked
  Configuration configuration;
  Outcome outcome = Outcome::ok;
  std::string reason;  // in words, empty when ok
  Metrics metrics;     // empty unless ok
  std::uint64_t seed = 0;
  double seconds = 0.0;  // wall time it took
  std::string started;   // UTC, ISO 8601
};

// One line of trials.jsonl and back. trial_from_json throws InputError naming the field (where: file and
// line).
nlohmann::json to_json_value(const Trial& trial);
Trial trial_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
