// The attention half of a layer: projections, rotary embedding, cache, attention, output projection.
#pragma once

#include "engine/rank.h"
#include "engine/weights.h"

namespace moetune {

// Attends from rank.scratch.normed to the cache of each token's sequence, after writing the tokens' own rows
// into it. Leaves the rank's part of the result, still to be summed over the ranks, in rank.scratch.output.
void attend(Rank& rank, const AttentionWeights& weights, int layer, std::int64_t tokens);

}  // namespace moetune
