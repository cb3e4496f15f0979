// From a preset's routing settings to the op that makes its logits. Start at synthetic_logits().
#pragma once

#include <cstdint>
#include <vector>

#include "engine/facts/model_spec.h"
#include "kernels/synthetic_logits.h"

namespace moetune {

// Everything but the tensors. layer: of the model. The first layer that routes is near chance in every
// published trace: it has no favourites and holds nothing.
SyntheticLogits synthetic_logits(const ModelSpec& spec, std::uint64_t seed, int layer);

// SyntheticLogits::favour of a layer: the same experts are popular whatever the sequence.
std::vector<std::int32_t> synthetic_favour(const ModelSpec& spec, std::uint64_t seed, int layer);

}  // namespace moetune
