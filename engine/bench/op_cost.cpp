#include "engine/bench/op_cost.h"

#include <algorithm>

#include "engine/dense_shapes.h"
#include "engine/facts/error.h"
#include "engine/kv_cache.h"
#include "engine/option_rules.h"
#include "engine/shard.h"

namespace moetune {
namespace {

constexpr Shard kWhole{0, 1};

// A matrix that every token is multiplied with.
OpCost product(const MatrixShape& shape, double tokens) {
  if (!shape.exists()) return {};
  return {static_cast<double>(shape.layout().bytes),
          2.0 * tokens * static_cast<double>(shape.rows.count) * static_cast<double>(shape.columns.count)};
}

OpCost operator+(const OpCost& a, const OpCost& b) { return {a.bytes + b.bytes, a.flops + b.flops}; }

OpCost feed_forward(const FeedForwardShape& shape, double tokens) {
  return product(shape.gate, tokens) + product(shape.up, tokens) + product(shape.down, tokens);
}

// Scores and weighted sum over the cache, without the projections around them.
OpCost cache_cost(const ModelSpec& spec, const EngineOptions& options, const OpWork& work) {
  const bool is_mla = spec.attention == AttentionKind::mla;
  const int sequences = work.is_prompt ? 1 : static_cast<int>(work.tokens);
  KvCache::Shape shape = KvCache::Shape::of(spec, options, kWhole, sequences, static_cast<int>(work.context));
  shape.layers = 1;
  const auto heads = static_cast<double>(spec.heads);
  const double widths = is_mla ? 2.0 * spec.kv_lora_rank + spec.qk_rope_dim : 2.0 * spec.head_dim;
  const auto tokens = static_cast<double>(work.tokens);
  const auto context = static_cast<double>(work.context);
  // A prompt's tokens see half of each other.
  const double keys = work.is_prompt ? tokens * (context - (tokens - 1.0) / 2.0) : tokens * context;
  return {static_cast<double>(shape.bytes()), 2.0 * heads * widths * keys};
}

OpCost projections(const LayerShape& shape, double tokens) {
  OpCost cost;
  for (const MatrixShape* matrix : {&shape.q, &shape.k, &shape.v, &shape.q_a, &shape.q_b, &shape.kv_a,
                                    &shape.key_up, &shape.value_up, &shape.o})
    cost = cost + product(*matrix, tokens);
  return cost;
}

OpCost experts(const ModelSpec& spec, const EngineOptions& options, const OpWork& work) {
  const auto pairs = static_cast<double>(work.tokens) * effective_top_k(spec, options);
  return {work.experts_touched * static_cast<double>(expert_layout(spec, options, kWhole).bytes),
          2.0 * pairs * static_cast<double>(spec.expert_parameters())};
}

}  // namespace

const std::vector<OpFacts>& known_ops() {
  static const std::vector<OpFacts> ops{
      {"read", "memory read and added up: what a memory-bound op can reach"},
      {"attention", "scores and weighted sum over the KV cache"},
      {"attention_half", "norm, projections, rotary embedding, KV cache, attention, output projection"},
      {"router", "norm, router product, scores, top-k"},
      {"experts", "routed experts and their weighted sum"},
      {"routed", "router and experts, without shared ones"},
      {"shared", "shared experts"},
      {"moe", "router, experts and shared experts: the feed-forward half of a layer that routes"},
      {"dense", "norm and feed-forward of a layer that does not route"},
      {"layer", "attention_half and moe, or dense in a model that does not route"},
      {"head", "final norm and the product with the vocabulary"}};
  return ops;
}

std::vector<std::string> op_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const OpFacts& op : known_ops()) {
    const bool routes =
        op.name == "router" || op.name == "experts" || op.name == "routed" || op.name == "moe";
    if (routes && spec.moe_layer_count() == 0) continue;
    if (op.name == "shared" && (spec.moe_layer_count() == 0 || spec.shared_experts == 0)) continue;
    if (op.name == "dense" && spec.moe_layer_count() == spec.layers) continue;
    names.push_back(op.name);
  }
  return names;
}

OpCost op_cost(const std::string& op, const ModelSpec& spec, const EngineOptions& options, int layer,
               const OpWork& work) {
  const LayerShape shape = layer_shape(spec, options, layer, kWhole);
  const auto tokens = static_cast<double>(work.tokens);
  const OpCost router = product(shape.router, tokens);
  const OpCost shared = feed_forward(shape.shared, tokens);
  const OpCost moe = router + experts(spec, options, work) + shared;
  const OpCost attention = projections(shape, tokens) + cache_cost(spec, options, work);
  if (op == "attention") return cache_cost(spec, options, work);
  if (op == "attention_half") return attention;
  if (op == "router") return router;
  if (op == "experts") return experts(spec, options, work);
  if (op == "routed") return router + experts(spec, options, work);
  if (op == "shared") return shared;
  if (op == "moe") return moe;
  if (op == "dense") return feed_forward(shape.dense, tokens);
  if (op == "layer")
    return attention +
           (spec.moe_layers[static_cast<std::size_t>(layer)] ? moe : feed_forward(shape.dense, tokens));
  if (op == "head") {
    const MatrixShape head = model_shape(spec, options, kWhole).head;
    return product(head.exists() ? head : model_shape(spec, options, kWhole).embedding, tokens);
  }
  throw std::logic_error("no cost of op " + op);
}

}  // namespace moetune
