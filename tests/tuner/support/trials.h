// Trials for tests, and what counts when two runs are compared.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/trial.h"

namespace moetune {

inline Trial example_trial(std::int64_t number) {
  Trial trial;
  trial.number = number;
  trial.configuration.values = {
      {"top_k", std::to_string(number % 8 + 1)}, {"expert_quant", "int8"}, {"expert_cache", "0.25"}};
  trial.seed = 9007199254740991U - static_cast<std::uint64_t>(number);
  trial.seconds = 1.0 / 3.0 + static_cast<double>(number);
  trial.started = "2026-11-29T16:46:39Z";
  if (number % 3 == 2) {
    trial.outcome = Outcome::crashed;
    trial.reason = "was killed by SIGSEGV; last words: \"quoted\" | \\ \xC3\xA4";
  } else {
    trial.metrics["tpot_ms"] = {.value = 0.1 + static_cast<double>(number),
                                .low = 0.1,
                                .high = 1e300,
                                .p99 = 7.25,
                                .n = 40,
                                .origin = Origin::measured,
                                .stopped = "interval narrow"};
    trial.metrics["device_bytes"] = {
        .value = 1e9, .low = {}, .high = {}, .p99 = {}, .n = 1, .origin = Origin::predicted, .stopped = ""};
  }
  return trial;
}

inline std::string text_of(const Trial& trial) { return to_json_value(trial).dump(); }

// Everything but times: equal for a disturbed and an undisturbed run.
inline std::vector<std::string> without_times(const std::vector<Trial>& trials) {
  std::vector<std::string> lines;
  for (Trial trial : trials) {
    trial.seconds = 0.0;
    trial.started.clear();
    lines.push_back(text_of(trial));
  }
  return lines;
}

}  // namespace moetune
