// The feed-forward half of a layer: dense, or mixture of experts.
#pragma once

#include <cstdint>

#include "engine/rank.h"
#include "engine/weights.h"

namespace moetune {

// Both norm rank.scratch.residual and add the rank's part of the result to where begin_half_layer() says.
void feed_forward(Rank& rank, const LayerWeights& weights, std::int64_t tokens);
// layer: of the model; moe_layer: counts only the layers that route.
void mixture_of_experts(Rank& rank, const LayerWeights& weights, int layer, int moe_layer,
                        std::int64_t tokens);

// The parts of mixture_of_experts() by themselves, for those who time them, as is route() (engine/router.h):
// the experts, chosen as scratch says and all of them resident, and the shared ones read x and add to y.
void run_resident_experts(Rank& rank, const Tensor& x, int moe_layer, const Tensor& y);
void run_shared_experts(Rank& rank, const LayerWeights& weights, const Tensor& x, const Tensor& y);

}  // namespace moetune
