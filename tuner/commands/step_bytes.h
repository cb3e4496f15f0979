// What one decoding step of a model has to move under a configuration, from its geometry: for the roofline.
#pragma once

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/facts/workload.h"
#include "tuner/compare/roofline.h"
#include "tuner/configuration.h"

namespace moetune {

// Halfway through an answer, for all sequences of the workload side by side; which experts they touch is
// taken to be uniformly random. cache_hit: share of them that is resident, 0 to 1. Throws InputError for a
// knob or value that is not known.
StepBytes step_bytes(const ModelSpec& spec, const Configuration& configuration, const Workload& workload,
                     DeviceKind device, double cache_hit);

}  // namespace moetune
