#include "engine/dense_twin.h"

#include <algorithm>

#include <fmt/core.h>

#include "engine/content_hash.h"

namespace moetune {
namespace {

constexpr std::int64_t kMatrices = 3;  // gate, up, down

}  // namespace

std::int64_t active_feed_forward_parameters(const ModelSpec& spec, int top_k) {
  const std::int64_t routed = spec.moe_layer_count();
  const std::int64_t dense = spec.layers - routed;
  const std::int64_t experts = std::int64_t{top_k} + spec.shared_experts;
  return routed * (experts * spec.expert_parameters() + std::int64_t{spec.hidden} * spec.experts) +
         dense * kMatrices * spec.hidden * spec.dense_inner;
}

Preset dense_twin(const ModelSpec& spec, int top_k) {
  Preset twin;
  twin.spec = spec;
  ModelSpec& dense = twin.spec;
  const std::int64_t unit = kMatrices * spec.hidden * spec.layers;
  dense.dense_inner = static_cast<int>(
      std::max<std::int64_t>(1, (active_feed_forward_parameters(spec, top_k) + unit / 2) / unit));
  dense.moe_layers.assign(static_cast<std::size_t>(spec.layers), false);
  dense.experts = 0;
  dense.experts_per_token = 0;
  dense.expert_inner = 0;
  dense.shared_experts = 0;
  dense.expert_groups = 1;
  dense.kept_groups = 1;
  dense.synthetic_routing.reset();
  dense.is_synthetic = true;
  dense.checkpoint_type = spec.dense_number_type();
  dense.name = fmt::format("dense twin of {}", spec.name);
  twin.source = "generated for comparison";
  ContentHash hash;
  for (const std::string& text : {dense.name, spec.content_hash, std::to_string(dense.dense_inner)})
    hash.add_text(text);
  dense.content_hash = hash.hex();
  return twin;
}

}  // namespace moetune
