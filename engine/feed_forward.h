// The feed-forward half of a layer: dense, or mixture of experts.
#pragma once

#include "engine/rank.h"
#include "engine/weights.h"

namespace moetune {

// Both norm rank.scratch.residual and add the rank's part of the result to where begin_half_layer() says.
void feed_forward(Rank& rank, const LayerWeights& weights, std::int64_t tokens);
// layer: of the model; moe_layer: counts only the layers that route.
void mixture_of_experts(Rank& rank, const LayerWeights& weights, int layer, int moe_layer,
                        std::int64_t tokens);

}  // namespace moetune
