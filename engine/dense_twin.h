// The dense model that people compare a mixture of experts with: the same hidden size, layers, attention and
// vocabulary, and as many parameters at work per token, none of them routed. Its weights are generated, its
// output means nothing.
#pragma once

#include "engine/facts/model_spec.h"
#include "engine/presets.h"

namespace moetune {

// Parameters that a token goes through in the feed-forward halves and routers of all layers, with top_k
// experts per token.
std::int64_t active_feed_forward_parameters(const ModelSpec& spec, int top_k);

// Number types are the model's own of its dense layers. Its inner width is the active parameters over those
// of one unit of width in every layer, rounded; fold stays.
Preset dense_twin(const ModelSpec& spec, int top_k);

}  // namespace moetune
