// How much of a token's scores its first, second ... expert holds, layer by layer, on the model's calibration
// text: what top_k_rule=per_layer is decided by. Start at layer_experts().
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"

namespace moetune {

// Experts of each layer that routes, top_k of them on average. Depends on checkpoint, number types and top_k
// only, so that every engine over the same weights decides alike. Found out once per process by an engine of
// its own over the first 256 tokens of the calibration text; the caller's memory should not hold another one
// then: has_layer_experts().
std::vector<int> layer_experts(const std::shared_ptr<const Checkpoint>& checkpoint,
                               const EngineOptions& options);

// Is it known already?
bool has_layer_experts(const ModelSpec& spec, const EngineOptions& options);

}  // namespace moetune
