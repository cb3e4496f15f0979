// What is measured. The tuner core knows no engine and no knob: it hands a Configuration down and gets
// metrics back. A target lives in the worker process; engine_target measures the engine, synthetic_target is
// a pure function for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tuner/trial.h"

namespace moetune {

struct TargetResult {
  Outcome outcome = Outcome::ok;
  std::string reason;
  Metrics metrics;
};

class Target {
 public:
  virtual ~Target() = default;
  // Goes on with another setup, keeping what both have in common; false, with nothing changed: make a new
  // target. Throws InputError for a setup that is wrong.
  virtual bool take_over(const nlohmann::json&) { return false; }
  // Measures one configuration. progress, when given, is called with short words on what happens now
  // ("loading int4 experts", "measuring 12/40"). Expected failures come back as outcomes; an exception means
  // the worker is unusable.
  virtual TargetResult measure(const Configuration& configuration, std::uint64_t seed,
                               const std::function<void(const std::string&)>& progress) = 0;
};

}  // namespace moetune
