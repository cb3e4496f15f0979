#include "engine/rank_parts.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/checkpoint.h"
#include "engine/decode_loop.h"
#include "engine/decoder.h"
#include "engine/dense_shapes.h"
#include "engine/host_experts.h"
#include "engine/host_router.h"
#include "engine/option_rules.h"
#include "engine/prefetcher.h"
#include "engine/route_changes.h"
#include "engine/router_profile.h"
#include "kernels/device_memory.h"

namespace moetune {
namespace {

// The ranks share the processor, at least one thread each.
Cpu rank_cpu(const EngineOptions& options) {
  const int threads = options.cpu_threads > 0 ? options.cpu_threads : usable_cores();
  return Cpu(std::max(1, threads / options.tensor_parallel));
}

Device rank_device([[maybe_unused]] const EngineOptions& options, const Cpu& cpu) {
#if MOETUNE_HAS_CUDA
  if (options.device == DeviceKind::cuda) return Cuda(0);
#endif
  assert(options.device ==
         DeviceKind::cpu);  // objection_to_options() refuses a GPU that this build cannot use
  return cpu;
}

SlotDirectory::Shape cache_shape(const ModelSpec& spec, const EngineOptions& options) {
  return {.layers = spec.moe_layer_count(),
          .experts = spec.experts,
          .slots = static_cast<int>(cache_slots(spec, options)),
          .policy = options.cache_policy};
}

void make_cache(Rank& rank, const RankSetup& setup) {
  rank.cache.reset();  // its memory first: the new one may be as large as all there is
  rank.host_experts.reset();
  if (!rank.store) return;
  const ModelSpec& spec = *rank.spec;
  const ExpertCache::Missing missing = missing_experts(spec, setup.options);
  rank.cache =
      std::make_unique<ExpertCache>(rank.device, rank.host, *rank.store, cache_shape(spec, setup.options),
                                    missing, may_pin_experts(spec, setup.options));
  rank.cache->record_loads(rank.recorder);
  if (missing != ExpertCache::Missing::stays_outside) return;
  const ExpertLayout in_rows =
      ExpertLayout::of(expert_type(spec, setup.options), spec.hidden, rank.shard.expert_inner(spec).count);
  rank.host_experts =
      std::make_unique<HostExperts>(rank.device, rank.host, setup.checkpoint, rank.shard, in_rows,
                                    setup.limits.step_tokens, spec.experts_per_token);
}

void make_router(Rank& rank, const RankSetup& setup) {
  rank.host_router.reset();
  if (setup.options.device == DeviceKind::cuda && setup.options.router == RouterPlacement::cpu)
    rank.host_router =
        std::make_unique<HostRouter>(rank.device, *rank.spec, rank.weights, setup.limits.step_tokens);
}

// What prefetches has to be there after the cache, and learns anew with it.
void make_prefetcher(Rank& rank, const RankSetup& setup) {
  rank.prefetcher.reset();
  if (setup.options.prefetch != Prefetch::none && rank.cache && !rank.cache->is_resident())
    rank.prefetcher = std::make_unique<Prefetcher>(
        rank.device, *rank.spec, setup.options.prefetch,
        Prefetcher::For{setup.limits.sequences, setup.limits.step_tokens, rank.cache->looks_up_on_device()});
}

void make_kv(Rank& rank, const RankSetup& setup) {
  rank.kv = {};
  rank.kv = KvCache(rank.device, KvCache::Shape::of(*rank.spec, setup.options, rank.shard,
                                                    setup.limits.sequences, setup.limits.context_tokens));
}

void make_scratch_of(Rank& rank, const RankSetup& setup) {
  const EngineLimits& limits = setup.limits;
  rank.decode_loop.reset();
  rank.scratch = {};
  rank.scratch =
      make_scratch(rank.device, scratch_items(*rank.spec, rank.shard, limits.step_tokens, limits.logit_rows));
  reserve_scratch(rank.device, op_scratch_bytes(*rank.spec, setup.options, rank.shard, limits.step_tokens));
  if (setup.options.tensor_parallel == 1)
    rank.decode_loop = std::make_unique<DecodeLoop>(rank, limits.sequences, limits.context_tokens);
}

bool have_other_contexts(const EngineLimits& a, const EngineLimits& b) {
  return a.sequences != b.sequences || a.context_tokens != b.context_tokens;
}

}  // namespace

RouteChanges route_changes(const std::shared_ptr<const Checkpoint>& checkpoint,
                           const EngineOptions& options) {
  const TopKRule rule = TopKRule::of(options.top_k_rule);
  RouteChanges changes{
      .threshold = rule.threshold, .layer_experts = {}, .reroute_margin = options.reroute_margin};
  if (rule.per_layer) changes.layer_experts = layer_experts(checkpoint, options);
  return changes;
}

std::unique_ptr<Rank> make_rank(const RankSetup& setup, int index, const RouteChanges& changes) {
  const Cpu cpu = rank_cpu(setup.options);
  auto rank = std::make_unique<Rank>(cpu, rank_device(setup.options, cpu));
  rank->spec = &setup.checkpoint->spec();
  rank->shard = {index, setup.options.tensor_parallel};
  rank->top_k = routing_width(*rank->spec, setup.options);
  rank->changes = changes;
  return rank;
}

void make_parts(Rank& rank, const RankSetup& setup) {
  rank.weights = load_weights(rank.device, rank.host, *setup.checkpoint, setup.options, rank.shard);
  if (rank.spec->moe_layer_count() > 0)
    rank.store = std::make_unique<ExpertStore>(setup.checkpoint, rank.shard,
                                               expert_layout(*rank.spec, setup.options, rank.shard));
  make_cache(rank, setup);
  make_router(rank, setup);
  make_prefetcher(rank, setup);
  make_kv(rank, setup);
  make_scratch_of(rank, setup);
}

PartsToRenew parts_to_renew(const RankSetup& from, const RankSetup& to, bool was_whole) {
  const ModelSpec& spec = to.checkpoint->spec();
  const bool other_contexts = have_other_contexts(from.limits, to.limits);
  return {.cache = !was_whole || cache_slots(spec, to.options) != cache_slots(spec, from.options) ||
                   to.options.cache_policy != from.options.cache_policy ||
                   to.options.miss != from.options.miss,
          .kv = !was_whole || other_contexts || to.options.kv_type != from.options.kv_type,
          .scratch = !was_whole || other_contexts || to.limits.step_tokens != from.limits.step_tokens ||
                     to.limits.logit_rows != from.limits.logit_rows,
          .router = to.options.router != from.options.router,
          .threads = to.options.cpu_threads != from.options.cpu_threads};
}

bool keeps_weights(const ModelSpec& spec, const EngineOptions& from, const EngineOptions& to) {
  return from.device == to.device && from.tensor_parallel == to.tensor_parallel &&
         from.dense_quant == to.dense_quant && expert_type(spec, from) == expert_type(spec, to);
}

void renew_parts(Rank& rank, const RankSetup& setup, const PartsToRenew& parts, const RouteChanges& changes) {
  rank.top_k = routing_width(*rank.spec, setup.options);
  rank.changes = changes;
  rank.gate_ahead.reset();
  if (parts.threads) {
    rank.host = rank_cpu(setup.options);
    if (shares_host_memory(rank.device)) rank.device = rank.host;
  }
  if (parts.kv) rank.kv = {};  // its memory before that of the new scratch
  if (parts.scratch) make_scratch_of(rank, setup);
  if (rank.decode_loop) rank.decode_loop->forget_graphs();  // top_k, cache tables or threads may differ
  if (parts.kv) make_kv(rank, setup);
  rank.prefetcher.reset();
  if (parts.cache || (parts.scratch && rank.host_experts)) make_cache(rank, setup);
  if (parts.scratch || parts.router) make_router(rank, setup);
  make_prefetcher(rank, setup);
}

}  // namespace moetune
