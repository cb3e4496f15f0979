// The experts of a layer, run with what their cache holds: all at once, or in waves with what is fetched in
// between.
#pragma once

#include <cstdint>

#include "engine/rank.h"
#include "engine/router.h"
#include "engine/weights.h"

namespace moetune {

// What the host does between routing and experts, where it must know (rank.host_must_know()): it reads the
// choice, shows it to who watches, and fetches the first wave. x: (tokens, hidden), what the experts read.
void prepare_experts_on_host(Rank& rank, const Chosen& chosen, const Tensor& x, int layer, int moe_layer);

// Adds the chosen experts and the layer's shared ones (may be empty) to y, (tokens, hidden). After
// prepare_experts_on_host(), where there is a part of the host.
void run_experts(Rank& rank, const FeedForwardWeights& shared, const Tensor& x, const Chosen& chosen,
                 int layer, int moe_layer, const Tensor& y);

// One wave of all that is chosen, resident or looked up already. shared: may be empty.
void run_all_at_once(Rank& rank, const Tensor& x, const Chosen& chosen, const FeedForwardWeights& shared,
                     const Tensor& y);

// A dense feed-forward block, or the shared experts by themselves. Adds to y.
void run_dense(Rank& rank, const FeedForwardWeights& weights, Row row, const Tensor& x, const Tensor& y);

}  // namespace moetune
