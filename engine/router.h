// Which experts the tokens of a layer go to: the router's choice, on the device or on the host, or somebody
// else's.
#pragma once

#include <cstdint>

#include "engine/rank.h"
#include "engine/weights.h"

namespace moetune {

struct Chosen {
  Tensor ids;      // (tokens, k) i32, best first; -1: no expert
  Tensor weights;  // (tokens, k) f32
};

// Norms the residual stream into scratch.normed and leaves the choice in scratch: of the router, as
// top_k_rule and reroute_margin change it, or of rank.routing_source. layer: of the model; moe_layer: counts
// only the layers that route. Throws InputError for given ids that are no experts or twice in a token.
Chosen route(Rank& rank, const LayerWeights& weights, int layer, int moe_layer, std::int64_t tokens);

// Where a router writes.
struct RouterTensors {
  Tensor normed;   // (tokens, hidden) f32
  Tensor logits;   // (tokens, experts) f32
  Tensor ids;      // (tokens, k) i32
  Tensor weights;  // (tokens, k) f32
};
// What the router of a layer still to come says of the residual stream as it is now. Changes nothing but
// `to`.
void run_router_ahead(Rank& rank, const LayerWeights& weights, int layer, const RouterTensors& to);

}  // namespace moetune
