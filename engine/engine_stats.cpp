// Counters and bytes of all ranks, put together.
#include "engine/dense_shapes.h"
#include "engine/engine_impl.h"
#include "engine/host_experts.h"
#include "engine/host_router.h"
#include "engine/prefetcher.h"
#include "kernels/device_memory.h"

namespace moetune {

RunStats Engine::Impl::stats() const {
  RunStats stats;
  stats.tokens = tokens_run;
  const Rank& first = *ranks.front();
  stats.communication_seconds = first.communication_seconds;
  stats.host_waits = host_waits(ranks.front()->device) - host_waits_before;  // first: what follows waits
  if (first.host_router) stats.experts_rerouted = first.host_router->rerouted();
  if (first.cache) {  // all ranks look up, hit and miss alike
    const ExpertCache::Counters counters = first.cache->counters();
    stats.expert_lookups = counters.lookups;
    stats.expert_hits = counters.hits;
    stats.expert_misses = counters.misses;
    stats.expert_missing_layers = counters.missing_layers;
    stats.expert_evictions = counters.evictions;
    stats.experts_rerouted += counters.rerouted;
    stats.expert_load_seconds =
        counters.load_seconds + (first.host_experts ? first.host_experts->seconds() : 0.0);
    stats.experts_ahead = counters.ahead;
    stats.experts_ahead_in_vain = counters.ahead_in_vain;
  }
  for (const auto& rank : ranks) {
    stats.cpu_threads += rank->host.threads();
    stats.device_bytes += rank->weights.bytes + rank->kv.bytes() + rank->scratch.bytes() +
                          op_scratch_bytes(spec, options, rank->shard, limits.step_tokens);
    if (rank->decode_loop) stats.device_bytes += rank->decode_loop->bytes();
    if (!rank->cache) continue;
    stats.device_bytes += rank->cache->device_bytes();
    const std::int64_t expert_bytes = rank->cache->layout().bytes;
    const ExpertCache::Counters counters = rank->cache->counters();
    stats.expert_bytes_read += counters.bytes_read;
    stats.expert_bytes_ahead += counters.ahead * expert_bytes;
    stats.expert_bytes_in_vain += counters.ahead_in_vain * expert_bytes;
    if (rank->prefetcher) stats.device_bytes += rank->prefetcher->bytes();
    stats.host_bytes += rank->cache->is_resident() ? 0 : rank->store->outside_bytes();
    if (rank->host_experts) stats.host_bytes += rank->host_experts->host_bytes();
  }
  return stats;
}

void Engine::Impl::reset_stats() {
  tokens_run = 0;
  for (const auto& rank : ranks) {
    rank->communication_seconds = 0.0;
    if (rank->host_router) rank->host_router->reset_rerouted();
    if (rank->cache) rank->cache->reset_counters();
    if (rank->host_experts) rank->host_experts->reset_seconds();
  }
  host_waits_before = host_waits(ranks.front()->device);
}

}  // namespace moetune
