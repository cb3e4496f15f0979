// Start at mixture_of_experts(): router, route, experts in waves, combine.
#include "engine/feed_forward.h"

#include "kernels/buffer.h"
#include "kernels/expert_ffn.h"
#include "kernels/fill.h"
#include "kernels/gemm.h"
#include "kernels/route.h"
#include "kernels/run.h"
#include "kernels/swiglu.h"

namespace moetune {
namespace {

RouteRule rule_of(RoutingRule rule) {
  switch (rule) {
    case RoutingRule::grouped_sigmoid_bias:
      return RouteRule::grouped_sigmoid_bias;
    case RoutingRule::sqrt_softplus_bias:
      return RouteRule::sqrt_softplus_bias;
    case RoutingRule::softmax_top_k:
      break;
  }
  return RouteRule::softmax;
}

struct Chosen {
  Tensor ids;      // (tokens, k)
  Tensor weights;  // (tokens, k)
};

Chosen route(Rank& rank, const LayerWeights& weights, const Tensor& x) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t tokens = x.dim(0);
  const Tensor logits = first_rows(rank.scratch.router_logits, {tokens, spec.experts});
  const Chosen chosen{first_rows(rank.scratch.expert_ids, {tokens, rank.top_k}),
                      first_rows(rank.scratch.expert_weights, {tokens, rank.top_k})};
  run(rank.device, Gemm{.x = x, .w = weights.router, .y = logits, .bias = {}});
  run(rank.device, Route{.logits = logits,
                         .bias = weights.router_bias,
                         .ids = chosen.ids,
                         .weights = chosen.weights,
                         .rule = rule_of(spec.routing),
                         .normalize = spec.normalize_top_k,
                         .scale = static_cast<float>(spec.routed_scaling_factor),
                         .groups = spec.expert_groups,
                         .kept_groups = spec.kept_groups});
  return chosen;
}

template <class T>
void read_back(Rank& rank, const Tensor& from, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(from.elements()));
  copy_to_host(rank.device, from.data(), to.data(), from.elements() * element_bytes(from.type()));
}

void show_to_observer(Rank& rank, const Chosen& chosen, int layer) {
  if (!rank.observer) return;
  read_back(rank, chosen.weights, rank.chosen_weights);
  rank.observer(layer, rank.chosen_ids, rank.chosen_weights, static_cast<int>(chosen.ids.dim(0)), rank.top_k);
}

// The cache decides on the host. Where nothing is to be decided or shown, the choice stays on the device: waiting for it
// would cost 13 us and more per layer (H200, measured), and a whole step could not be one graph.
bool host_must_know(const Rank& rank) {
  return shares_host_memory(rank.device) || !rank.cache->is_resident() || rank.observer;
}

void run_wave(Rank& rank, const Tensor& x, const Tensor& ids, const Tensor& rows) {
  const ExpertCache& cache = *rank.cache;
  run(rank.device, ExpertFfn{.x = x,
                             .ids = ids,
                             .slot_of_expert = cache.wave_table(),
                             .slots = cache.slots(),
                             .layout = cache.layout(),
                             .rows = rows});
}

void run_experts(Rank& rank, const Tensor& x, const Tensor& ids, const Tensor& rows, int moe_layer) {
  ExpertCache& cache = *rank.cache;
  if (!host_must_know(rank)) {
    cache.begin_resident_layer(moe_layer);
    return run_wave(rank, x, ids, rows);
  }
  cache.begin_layer(moe_layer, rank.chosen_ids);
  while (cache.next_wave()) run_wave(rank, x, ids, rows);
}

}  // namespace

void feed_forward(Rank& rank, const FeedForwardWeights& weights, std::int64_t tokens) {
  const std::int64_t inner = weights.gate.layout.out;
  const Tensor x = first_rows(rank.scratch.normed, {tokens, rank.spec->hidden});
  const Tensor gate = first_rows(rank.scratch.gate, {tokens, inner});
  const Tensor up = first_rows(rank.scratch.up, {tokens, inner});
  run(rank.device, Gemm{.x = x, .w = weights.gate, .y = gate, .bias = {}});
  run(rank.device, Gemm{.x = x, .w = weights.up, .y = up, .bias = {}});
  run(rank.device, SwiGlu{.gate = gate, .up = up, .y = gate});
  run(rank.device, Gemm{.x = gate,
                        .w = weights.down,
                        .y = first_rows(rank.scratch.output, {tokens, rank.spec->hidden}),
                        .bias = {}});
}

void mixture_of_experts(Rank& rank, const LayerWeights& weights, int layer, int moe_layer,
                        std::int64_t tokens) {
  const std::int64_t hidden = rank.spec->hidden;
  const Tensor x = first_rows(rank.scratch.normed, {tokens, hidden});
  const Tensor output = first_rows(rank.scratch.output, {tokens, hidden});
  const Tensor rows = first_rows(rank.scratch.expert_rows, {tokens, rank.top_k, hidden});
  const Chosen chosen = route(rank, weights, x);
  if (host_must_know(rank)) read_back(rank, chosen.ids, rank.chosen_ids);
  show_to_observer(rank, chosen, layer);

  if (weights.shared.gate.empty())
    run(rank.device, Fill{.x = output, .value = 0.0F});
  else
    feed_forward(rank, weights.shared, tokens);
  run_experts(rank, x, chosen.ids, rows, moe_layer);
  run(rank.device, Combine{.rows = rows, .weights = chosen.weights, .y = output});
}

}  // namespace moetune
