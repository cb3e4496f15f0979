// What an engine counted and timed while it ran. Counters are plain sums since the last reset.
#pragma once

#include <cstdint>

namespace moetune {

struct RunStats {
  std::int64_t tokens = 0;          // tokens that went through the layers
  int cpu_threads = 0;              // that the host computes with now, over all ranks
  std::int64_t expert_lookups = 0;  // (token, rank) pairs asked of the expert cache, over all MoE layers
  std::int64_t expert_hits = 0;     // distinct experts of a step found resident
  std::int64_t expert_misses = 0;   // distinct experts of a step that had to be read
  std::int64_t expert_missing_layers = 0;  // steps of a layer that missed any
  std::int64_t expert_evictions = 0;
  std::int64_t expert_bytes_read = 0;  // bytes brought in by misses
  double expert_load_seconds = 0.0;    // time the layers waited for misses
  std::int64_t host_waits = 0;         // times the host waited for a GPU, rank 0
  std::int64_t experts_ahead = 0;      // distinct experts fetched before they were asked for (knob prefetch)
  std::int64_t experts_ahead_in_vain = 0;  // of them: not asked for by the step they were fetched for
  std::int64_t expert_bytes_ahead = 0;     // bytes of both; not part of expert_bytes_read
  std::int64_t expert_bytes_in_vain = 0;
  std::int64_t experts_rerouted = 0;   // choices that a resident expert took over (knob reroute_margin)
  double communication_seconds = 0.0;  // time in collectives, rank 0
  std::int64_t device_bytes = 0;       // weights + resident experts + KV + scratch held now
  std::int64_t host_bytes = 0;         // expert store beyond the cache (spill file, pinned store)

  // Share of looked-up distinct experts that were resident; 1 when nothing was looked up.
  double cache_hit() const {
    const std::int64_t asked = expert_hits + expert_misses;
    return asked == 0 ? 1.0 : static_cast<double>(expert_hits) / static_cast<double>(asked);
  }
};

}  // namespace moetune
