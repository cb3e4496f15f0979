// What a step of a cached model takes beyond that of a resident one, from a few sizes that were measured.
// Start at fit_step_costs().
#pragma once

#include <span>

#include "engine/miss_costs.h"

namespace moetune {

struct StepCosts {
  double lookup_ms = 0.0;         // of every step: what holds all experts looks nothing up
  double miss_ms = 0.0;           // of every miss
  double missing_layer_ms = 0.0;  // of every layer that goes for some

  double of(const StepMisses& asked) const {
    return lookup_ms + asked.misses * miss_ms + asked.missing_layers * missing_layer_ms;
  }
};

struct MeasuredSize {
  StepMisses asked;
  double extra_ms = 0.0;  // beyond the resident step
};

// Least squares, no cost below zero; of fits that are as good the one with fewer costs.
StepCosts fit_step_costs(std::span<const MeasuredSize> sizes);

}  // namespace moetune
