#include "engine/router.h"

#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/host_router.h"
#include "engine/prefetcher.h"
#include "engine/synthetic_routing.h"
#include "kernels/change_route.h"
#include "kernels/router.h"
#include "kernels/run.h"
#include "kernels/spin.h"

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

// The experts that somebody else chose, in place of the router. They are checked: a wrong id would read
// beyond the scores.
void take_given_experts(Rank& rank, const Tensor& ids, int layer) {
  const int k = rank.top_k;
  std::vector<std::int32_t>& given = rank.chosen_ids;
  given.assign(static_cast<std::size_t>(ids.elements()), -1);
  rank.routing_source(layer, given, static_cast<int>(ids.dim(0)), k);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto place = [&] {
      return fmt::format("forced routing, layer {}, token {} of the step", layer,
                         i / static_cast<std::size_t>(k));
    };
    if (given[i] < -1 || given[i] >= rank.spec->experts)  // -1: no expert
      throw InputError(place(), fmt::format("expert {}", given[i]),
                       fmt::format("-1 .. {}", rank.spec->experts - 1));
    for (std::size_t before = i / static_cast<std::size_t>(k) * static_cast<std::size_t>(k); before < i;
         ++before)
      if (given[i] >= 0 && given[before] == given[i])
        throw InputError(place(), fmt::format("expert {} twice", given[i]), "different experts");
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

Router router_of(Rank& rank, const LayerWeights& weights, int layer, const RouterTensors& to) {
  const ModelSpec& spec = *rank.spec;
  const std::int64_t tokens = to.normed.dim(0);
  return {.x = first_rows(rank.scratch.residual, {tokens, spec.hidden}),
          .norm = weights.post_attention_norm,
          .normed = to.normed,
          .eps = static_cast<float>(spec.rms_eps),
          .w = weights.router,
          .route = {.logits = to.logits,
                    .bias = weights.router_bias,
                    .ids = to.ids,
                    .weights = to.weights,
                    .rule = rule_of(spec.routing),
                    .normalize = spec.normalize_top_k,
                    .scale = static_cast<float>(spec.routed_scaling_factor),
                    .groups = spec.expert_groups,
                    .kept_groups = spec.kept_groups},
          .synthetic = synthetic(rank, weights, layer, tokens),
          .is_before_shared = !weights.shared.gate.empty()};
}

// The running layer's own.
Router router_of(Rank& rank, const LayerWeights& weights, int layer, std::int64_t tokens) {
  return router_of(rank, weights, layer,
                   {.normed = first_rows(rank.scratch.normed, {tokens, rank.spec->hidden}),
                    .logits = first_rows(rank.scratch.router_logits, {tokens, rank.spec->experts}),
                    .ids = first_rows(rank.scratch.expert_ids, {tokens, rank.top_k}),
                    .weights = first_rows(rank.scratch.expert_weights, {tokens, rank.top_k})});
}

// top_k_rule and reroute_margin; nothing of them applies to experts that somebody else chose.
ChangeRoute changes_to(Rank& rank, const Route& route, int moe_layer) {
  const RouteChanges& changes = rank.changes;
  ChangeRoute op{.route = route};
  if (rank.routing_source) return op;
  op.threshold = changes.threshold;
  if (!changes.layer_experts.empty()) op.kept = changes.layer_experts[static_cast<std::size_t>(moe_layer)];
  // A prompt asks for most experts anyway, and accuracy is judged step by step.
  if (changes.reroute_margin > 0.0 && rank.is_one_each && !rank.cache->is_resident()) {
    op.margin = changes.reroute_margin;
    op.slot_of_expert = rank.cache->table(moe_layer);
    op.replaced = rank.cache->rerouted();
  }
  return op;
}

}  // namespace

Chosen route(Rank& rank, const LayerWeights& weights, int layer, int moe_layer, std::int64_t tokens) {
  const OpScope scope(rank.recorder, Activity::compute, Row::router);
  Router router = router_of(rank, weights, layer, tokens);
  if (rank.routing_source) take_given_experts(rank, router.route.ids, layer);
  router.route.ids_are_given = static_cast<bool>(rank.routing_source);
  const ChangeRoute change = changes_to(rank, router.route, moe_layer);
  if (rank.host_router) {
    on_host(rank, [&rank, router, change, layer] {
      const HostScope on_host_scope(rank.recorder, Activity::compute, Row::router);
      const std::span<const std::int32_t> ids =
          rank.host_router->route(rank.device, rank.host, router, change, layer);
      rank.chosen_ids.assign(ids.begin(), ids.end());
    });
  } else {
    run(rank.device, router);
    if (change.changes()) run(rank.device, change);
  }
  if (rank.injected.router_spin_ns > 0) run(rank.device, Spin{.ns = rank.injected.router_spin_ns});
  if (rank.prefetcher) rank.prefetcher->ask(rank, layer, tokens);
  return {router.route.ids, router.route.weights};
}

void run_router_ahead(Rank& rank, const LayerWeights& weights, int layer, const RouterTensors& to) {
  Router router = router_of(rank, weights, layer, to);
  router.synthetic.is_prediction = true;
  run(rank.device, router);
}

}  // namespace moetune
