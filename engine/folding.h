// Folding: in a synthetic model that is larger than the memory, several layers share one set of weights,
// while launches, traffic, KV cache and expert cache entries stay those of the full depth. Only synthetic
// models are folded: a checkpoint's layers differ. Start at weight_layer() for what a folded model is,
// choose_fold() for how far one must be folded.
//
// Layers of one kind (dense or routed) take turns: of n layers, ceil(n / fold) have weights of their own, and
// layer i uses those of layer i modulo that number. So the same weights come up again as late as they can,
// and no cache holds them until then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"

namespace moetune {

// The layer whose weights a layer uses: itself, or an earlier one of its kind.
int weight_layer(const ModelSpec& spec, int layer);

// The same among the layers that route, counted from the first of them.
int weight_moe_layer(const ModelSpec& spec, int moe_layer);
int distinct_moe_layers(const ModelSpec& spec);

// Bytes of weights that one token reads before it meets the same weights again: of the layers between, the
// chosen experts only. What a cache must not hold for a folded model to be as slow as a real one.
std::int64_t reuse_distance_bytes(const ModelSpec& spec, const EngineOptions& options);

struct Fold {
  int fold = 1;           // 0: no fold makes it fit
  std::string objection;  // why not, in words; with what would help
};
// The least fold with which everything resident fits into device_bytes. cache_bytes: the reuse distance must
// be beyond it. spec.fold is not looked at.
Fold choose_fold(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits,
                 std::int64_t device_bytes, std::int64_t cache_bytes);

}  // namespace moetune
