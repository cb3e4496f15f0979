// Start at mixture_of_experts(): router, route, experts in waves, combine.
#include "engine/feed_forward.h"

#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/host_experts.h"
#include "engine/host_router.h"
#include "engine/synthetic_routing.h"
#include "kernels/buffer.h"
#include "kernels/expert_ffn.h"
#include "kernels/feed_forward.h"
#include "kernels/rms_norm.h"
#include "kernels/router.h"
#include "kernels/run.h"

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

// The experts that somebody else chose, in place of the router. They are checked: a wrong id would read beyond the scores.
void take_given_experts(Rank& rank, const Tensor& ids, int layer) {
  const int k = rank.top_k;
  std::vector<std::int32_t>& given = rank.chosen_ids;
  given.assign(static_cast<std::size_t>(ids.elements()), -1);
  rank.routing_source(layer, given, static_cast<int>(ids.dim(0)), k);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = [&] { return fmt::format("forced routing, layer {}, token {} of the step", layer, i / static_cast<std::size_t>(k)); };
    if (given[i] < 0 || given[i] >= rank.spec->experts)
      throw InputError(place(), fmt::format("expert {}", given[i]), fmt::format("0 .. {}", rank.spec->experts - 1));
    for (std::size_t before = i / static_cast<std::size_t>(k) * static_cast<std::size_t>(k); before < i; ++before)
      if (given[before] == given[i]) throw InputError(place(), fmt::format("expert {} twice", given[i]), "different experts");
  }
  copy_to_device(rank.device, given.data(), ids.data(), ids.elements() * element_bytes(ids.type()));
}

// Where tokens go in a preset: as in the published model, not as generated weights would send them.
SyntheticLogits synthetic(const Rank& rank, const LayerWeights& weights, int layer, std::int64_t tokens) {
  if (weights.router_favour.empty()) return {};
  SyntheticLogits logits = synthetic_logits(*rank.spec, rank.weights.seed, layer);
  logits.favour = weights.router_favour;
  logits.sequences = first_rows(rank.scratch.sequences, {tokens});
  logits.positions = first_rows(rank.scratch.positions, {tokens});
  return logits;
}

Chosen route(Rank& rank, const LayerWeights& weights, const Tensor& normed, int layer) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t tokens = normed.dim(0);
  const Chosen chosen{first_rows(rank.scratch.expert_ids, {tokens, rank.top_k}),
                      first_rows(rank.scratch.expert_weights, {tokens, rank.top_k})};
  if (rank.routing_source) take_given_experts(rank, chosen.ids, layer);
  const Router op{.x = first_rows(rank.scratch.residual, {tokens, spec.hidden}),
                          .norm = weights.post_attention_norm,
                          .normed = normed,
                          .eps = static_cast<float>(spec.rms_eps),
                          .w = weights.router,
                          .route = {.logits = first_rows(rank.scratch.router_logits, {tokens, spec.experts}),
                                    .bias = weights.router_bias,
                                    .ids = chosen.ids,
                                    .weights = chosen.weights,
                                    .rule = rule_of(spec.routing),
                                    .normalize = spec.normalize_top_k,
                                    .scale = static_cast<float>(spec.routed_scaling_factor),
                                    .groups = spec.expert_groups,
                                    .kept_groups = spec.kept_groups,
                                    .ids_are_given = static_cast<bool>(rank.routing_source)},
                          .synthetic = synthetic(rank, weights, layer, tokens)};
  if (!rank.host_router) {
    run(rank.device, op);
    return chosen;
  }
  on_host(rank, [&rank, op, layer] {
    const std::span<const std::int32_t> ids = rank.host_router->route(rank.device, rank.host, op, layer);
    rank.chosen_ids.assign(ids.begin(), ids.end());
  });
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

// What the host does between routing and experts, where it must know: the first wave.
void host_part(Rank& rank, const Chosen& chosen, const Tensor& x, int layer, int moe_layer) {
  if (!rank.host_router) read_back(rank, chosen.ids, rank.chosen_ids);  // else it is the host's own choice
  show_to_observer(rank, chosen, layer);
  if (rank.cache->looks_up_on_device()) return;
  rank.cache->begin_layer(moe_layer, rank.chosen_ids, rank.cache->waves_at_most(moe_layer, chosen.ids.dim(0), rank.top_k));
  rank.cache->next_wave();
  if (!rank.cache->outside().empty()) rank.host_experts->take_inputs(rank.device, x);
}

ExpertFfn ffn_of(const Rank& rank, const Tensor& x, const Chosen& chosen) {
  return {.x = x,
          .ids = chosen.ids,
          .slot_of_expert = rank.cache->wave_table(),
          .slots = rank.cache->slots(),
          .layout = rank.cache->layout(),
          .rows = first_rows(rank.scratch.expert_rows, {x.dim(0), rank.top_k, x.dim(1)})};
}

void run_all_at_once(Rank& rank, const Tensor& x, const Chosen& chosen, const Tensor& y) {
  run(rank.device, RoutedFfn{.ffn = ffn_of(rank, x, chosen), .weights = chosen.weights, .y = y});
}

// Where one wave is enough whatever was routed, the ops are those of the resident model, whose kernels for one token sum the
// choices up as they go.
void run_experts(Rank& rank, const Tensor& x, const Chosen& chosen, int moe_layer, const Tensor& y) {
  ExpertCache& cache = *rank.cache;
  const bool device_decides = cache.looks_up_on_device();
  if (!device_decides && !rank.host_must_know()) return run_resident_experts(rank, x, moe_layer, y);
  const int waves = cache.waves_at_most(moe_layer, x.dim(0), rank.top_k);
  if (device_decides) {
    cache.first_device_wave(moe_layer, chosen.ids);
    if (waves == 1) return run_all_at_once(rank, x, chosen, y);
    run(rank.device, ffn_of(rank, x, chosen));
    for (int wave = 1; wave < waves; ++wave) {
      cache.next_device_wave();
      run(rank.device, ffn_of(rank, x, chosen));
    }
  } else if (cache.leaves_some_outside()) {
    const ExpertFfn resident = ffn_of(rank, x, chosen);
    run(rank.device, resident);
    on_host(rank, [&rank, &cache, moe_layer, rows = resident.rows] {
      rank.host_experts->compute(rank.device, rank.host, moe_layer, rank.chosen_ids, cache.outside(), rows);
    });
  } else {  // the first wave is there: host_part()
    if (waves == 1) return run_all_at_once(rank, x, chosen, y);
    run(rank.device, ffn_of(rank, x, chosen));
    // Recorded, a step has as many waves as it may ever need.
    for (int wave = 1; wave < waves && (rank.pieces != nullptr || cache.is_wave_left()); ++wave) {
      on_host(rank, [&cache] { cache.next_wave(); });
      run(rank.device, ffn_of(rank, x, chosen));
    }
  }
  run(rank.device, Combine{.rows = ffn_of(rank, x, chosen).rows, .weights = chosen.weights, .y = y});
}

void run_dense(Rank& rank, const FeedForwardWeights& weights, const Tensor& x, const Tensor& y) {
  const std::int64_t inner = weights.gate.layout.out;
  run(rank.device, FeedForward{.x = x,
                               .gate = weights.gate,
                               .up = weights.up,
                               .down = weights.down,
                               .gated = first_rows(rank.scratch.gate, {x.dim(0), inner}),
                               .upped = first_rows(rank.scratch.up, {x.dim(0), inner}),
                               .y = y});
}

}  // namespace

void feed_forward(Rank& rank, const LayerWeights& weights, std::int64_t tokens) {
  const std::int64_t hidden = rank.spec->hidden;
  const Tensor normed = first_rows(rank.scratch.normed, {tokens, hidden});
  run(rank.device, RmsNorm{.x = first_rows(rank.scratch.residual, {tokens, hidden}),
                           .weight = weights.post_attention_norm,
                           .y = normed,
                           .eps = static_cast<float>(rank.spec->rms_eps)});
  run_dense(rank, weights.dense, normed, begin_half_layer(rank, tokens));
}

void run_router(Rank& rank, const LayerWeights& weights, int layer, std::int64_t tokens) {
  route(rank, weights, first_rows(rank.scratch.normed, {tokens, rank.spec->hidden}), layer);
}

void run_resident_experts(Rank& rank, const Tensor& x, int moe_layer, const Tensor& y) {
  const Chosen chosen{first_rows(rank.scratch.expert_ids, {x.dim(0), rank.top_k}),
                      first_rows(rank.scratch.expert_weights, {x.dim(0), rank.top_k})};
  rank.cache->begin_resident_layer(moe_layer);
  run_all_at_once(rank, x, chosen, y);
}

void run_shared_experts(Rank& rank, const LayerWeights& weights, const Tensor& x, const Tensor& y) {
  run_dense(rank, weights.shared, x, y);
}

void mixture_of_experts(Rank& rank, const LayerWeights& weights, int layer, int moe_layer,
                        std::int64_t tokens) {
  const Tensor x = first_rows(rank.scratch.normed, {tokens, rank.spec->hidden});
  const Chosen chosen = route(rank, weights, x, layer);
  if (rank.host_must_know()) on_host(rank, [&rank, chosen, x, layer, moe_layer] { host_part(rank, chosen, x, layer, moe_layer); });
  const Tensor output = begin_half_layer(rank, tokens);
  run_experts(rank, x, chosen, moe_layer, output);
  if (!weights.shared.gate.empty()) run_dense(rank, weights.shared, x, output);
}

}  // namespace moetune
