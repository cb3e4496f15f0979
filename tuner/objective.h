// What is minimised: a metric by name, with its direction and a limit beyond which a point is worth nothing.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/trial.h"

namespace moetune {

struct Objective {
  std::string metric;
  bool maximize = false;  // tokens_per_s, top1_agreement; turned around before searching
};

// Parses "tpot_ms,kl_mean,device_bytes"; throws InputError with the accepted metrics.
std::vector<Objective> objectives_named(const std::string& comma_separated);

// Values of a trial, all to be minimised; empty when the trial failed or lacks one of them.
std::optional<std::vector<double>> values_of(const Trial& trial, std::span<const Objective> objectives);

}  // namespace moetune
