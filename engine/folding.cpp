#include "engine/folding.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/dense_shapes.h"
#include "engine/facts/size_text.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"

namespace moetune {
namespace {

int distinct_of(int count, int fold) { return (count + fold - 1) / fold; }

// Layers of the kind of `layer`, and its number among them.
struct Kind {
  int count = 1;
  int index = 0;
};
Kind kind_of(const ModelSpec& spec, int layer) {
  const bool routes = spec.moe_layers[static_cast<std::size_t>(layer)];
  Kind kind;
  for (int other = 0; other < spec.layers; ++other) {
    if (other == layer || spec.moe_layers[static_cast<std::size_t>(other)] != routes) continue;
    kind.index += other < layer ? 1 : 0;
    ++kind.count;
  }
  return kind;
}

std::int64_t bytes_of(const MatrixShape& shape) { return shape.exists() ? shape.layout().bytes : 0; }

// Weights of one layer that a token reads on one rank.
std::int64_t bytes_per_token(const ModelSpec& spec, const EngineOptions& options, int layer) {
  const Shard shard{0, options.tensor_parallel};
  const LayerShape shape = layer_shape(spec, options, layer, shard);
  std::int64_t bytes = 4 * shape.f32_elements;
  for (const MatrixShape* matrix :
       {&shape.q, &shape.k, &shape.v, &shape.q_a, &shape.q_b, &shape.kv_a, &shape.key_up, &shape.value_up,
        &shape.o, &shape.router, &shape.dense.gate, &shape.dense.up, &shape.dense.down, &shape.shared.gate,
        &shape.shared.up, &shape.shared.down})
    bytes += bytes_of(*matrix);
  if (spec.moe_layers[static_cast<std::size_t>(layer)])
    bytes += std::int64_t{effective_top_k(spec, options)} * expert_layout(spec, options, shard).bytes;
  return bytes;
}

}  // namespace

int weight_layer(const ModelSpec& spec, int layer) {
  if (spec.fold <= 1) return layer;
  const Kind kind = kind_of(spec, layer);
  const int wanted = kind.index % distinct_of(kind.count, spec.fold);
  int index = 0;
  for (int other = 0; other < layer; ++other) {
    if (spec.moe_layers[static_cast<std::size_t>(other)] != spec.moe_layers[static_cast<std::size_t>(layer)])
      continue;
    if (index++ == wanted) return other;
  }
  return layer;
}

int distinct_moe_layers(const ModelSpec& spec) { return distinct_of(spec.moe_layer_count(), spec.fold); }

int weight_moe_layer(const ModelSpec& spec, int moe_layer) {
  return spec.fold <= 1 ? moe_layer : moe_layer % distinct_moe_layers(spec);
}

std::int64_t reuse_distance_bytes(const ModelSpec& spec, const EngineOptions& options) {
  std::int64_t shortest = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const int before = weight_layer(spec, layer);
    if (before == layer) continue;
    // Its weights were last used a whole turn ago.
    int previous = layer - 1;
    while (weight_layer(spec, previous) != before) --previous;
    std::int64_t between = 0;
    for (int other = previous; other < layer; ++other) between += bytes_per_token(spec, options, other);
    shortest = shortest == 0 ? between : std::min(shortest, between);
  }
  return shortest;
}

Fold choose_fold(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits,
                 std::int64_t device_bytes, std::int64_t cache_bytes) {
  EngineOptions resident = options;
  resident.expert_cache_fraction = 1.0;
  resident.expert_cache_bytes = 0;
  ModelSpec folded = spec;
  std::int64_t least = 0;
  for (folded.fold = 1; folded.fold <= spec.layers; ++folded.fold) {
    least = plan_memory(folded, resident, limits).total();
    if (device_bytes > 0 && least > device_bytes) continue;
    const std::int64_t distance = reuse_distance_bytes(folded, resident);
    if (folded.fold == 1 || distance > cache_bytes) return {folded.fold, ""};
    return {0, fmt::format(
                   "folded x{} it fits into {}, but then the same weights come up again after {}, within the "
                   "caches ({} counts as far enough): times would flatter; fewer layers or more memory help",
                   folded.fold, size_text(device_bytes), size_text(distance), size_text(cache_bytes))};
  }
  return {
      0, fmt::format("needs {} even with one set of weights for all layers, {} more than there is; a shorter "
                     "workload or more memory help",
                     size_text(least), size_text(least - device_bytes))};
}

}  // namespace moetune
