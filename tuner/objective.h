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
  bool maximize = false;        // tokens_per_s, top1_agreement; turned around before searching
  std::optional<double> limit;  // in the metric's own direction: at most, or at least when maximised
};

inline constexpr std::size_t most_objectives = 4;  // hypervolume is exact up to here

// Parses "tpot_ms,kl_mean,device_bytes"; throws InputError with the accepted metrics.
// Limits come from metric_facts.h.
std::vector<Objective> objectives_named(const std::string& comma_separated);

// Values of a trial, all to be minimised; empty when the trial failed or lacks one of them.
std::optional<std::vector<double>> values_of(const Trial& trial, std::span<const Objective> objectives);

// A value between "as reported" and "to be minimised"; its own inverse.
inline double turned(const Objective& objective, double value) { return objective.maximize ? -value : value; }

}  // namespace moetune
