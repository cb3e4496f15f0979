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

// The parts of mixture_of_experts() by themselves, for those who time them. The router norms the residual stream into
// scratch.normed and leaves its choice in scratch; the experts, all of them resident, and the shared ones read x and add to y.
// Where a router writes.
struct RouterTensors {
  Tensor normed;   // (tokens, hidden) f32
  Tensor logits;   // (tokens, experts) f32
  Tensor ids;      // (tokens, k) i32
  Tensor weights;  // (tokens, k) f32
};
void run_router(Rank& rank, const LayerWeights& weights, int layer, int moe_layer, std::int64_t tokens);
void run_resident_experts(Rank& rank, const Tensor& x, int moe_layer, const Tensor& y);
void run_shared_experts(Rank& rank, const LayerWeights& weights, const Tensor& x, const Tensor& y);


// What the router of a layer still to come says of the residual stream as it is now. Changes nothing but `to`.
void run_router_ahead(Rank& rank, const LayerWeights& weights, int layer, const RouterTensors& to);

}  // namespace moetune
