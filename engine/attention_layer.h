// The attention half of a layer: norm, projections, rotary embedding, cache, attention, output projection.
#pragma once

#include "engine/rank.h"
#include "engine/weights.h"

namespace moetune {

// Norms rank.scratch.residual, attends to the cache of each token's sequence after writing the tokens' own
// rows into it, and adds this rank's part of the result to where begin_half_layer() says. is_one_each: no two
// tokens are of one sequence.
void attend(Rank& rank, const LayerWeights& weights, int layer, std::int64_t tokens, bool is_one_each);

}  // namespace moetune
