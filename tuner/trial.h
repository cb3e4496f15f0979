// One try of one configuration: the unit of the log. Failure is a value with a reason, never time = infinity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/configuration.h"
#include "tuner/measurement.h"

namespace moetune {

enum class Outcome : std::uint8_t { ok, infeasible, out_of_memory, wrong_output, timed_out, crashed };
std::string_view name_of(Outcome outcome);
Outcome outcome_named(std::string_view name,
                      const std::string& where);  // throws InputError with the accepted names

// What makes a trial one of a final round, in which the best trials of a search are measured again, in turns;
// see final_round.h. The round is named by what it came from, so the log says all about it.
struct FinalTurn {
  std::int64_t after = 0;               // how many trials the search had then
  std::vector<std::int64_t> finalists;  // their numbers, the most important first
  std::int64_t pass = 0;                // each finalist is measured once a pass

  bool operator==(const FinalTurn&) const = default;
};

struct Trial {
  std::int64_t number = 0;  // 0, 1, 2 ... in the order they were asked; in a final round and of a recording:
                            // the trial measured again
  Configuration configuration;
  Outcome outcome = Outcome::ok;
  std::string reason;  // in words, empty when ok (but for a recording that was refused)
  Metrics metrics;     // empty unless ok
  std::uint64_t seed = 0;
  double seconds = 0.0;                          // wall time it took
  std::string started;                           // UTC, ISO 8601
  std::optional<FinalTurn> turn = std::nullopt;  // empty: a trial of the search, or a recording of one
  // Run once more, in a process of its own, while where its time goes was recorded: metrics are tax_...
  // alone, or none, and reason says why.
  bool is_recording = false;
  // By how much the calendar moved beside the clock that times are taken with; empty: not worth a word.
  std::optional<double> clock_jump_seconds = std::nullopt;
};

// One line of trials.jsonl and back. trial_from_json throws InputError naming the field (where: file and
// line).
nlohmann::json to_json_value(const Trial& trial);
Trial trial_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace moetune
