// Every tunable choice of the engine, typed, with its default. The knob table (knobs.h) maps names to these
// fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/number_type.h"

namespace moetune {

enum class DeviceKind : std::uint8_t { cpu, cuda };
enum class RouterPlacement : std::uint8_t { gpu, cpu };
enum class CachePolicy : std::uint8_t { lru, lfu, layer_lru, pinned };
enum class MissHandling : std::uint8_t { dma, pull, cpu };
enum class Prefetch : std::uint8_t { none, repeat, next_gate, markov, table };

struct EngineOptions {
  DeviceKind device = DeviceKind::cpu;     // where the layers run; --device, not a knob
  int top_k = 0;                           // 0: the model's own
  double expert_cache_fraction = 1.0;      // share of routed experts resident, 0 < f <= 1
  std::int64_t expert_cache_bytes = 0;     // > 0: a size instead of a share
  std::optional<NumberType> expert_quant;  // empty: as the checkpoint ships
  int tensor_parallel = 1;
  RouterPlacement router = RouterPlacement::cpu;
  CachePolicy cache_policy = CachePolicy::layer_lru;
  MissHandling miss = MissHandling::pull;
  Prefetch prefetch = Prefetch::none;
  bool cuda_graph = true;
  int expert_parallel = 1;
  std::optional<NumberType> dense_quant;  // empty: as the checkpoint ships
  std::optional<NumberType> kv_type;      // empty: the engine's own (f32 on a CPU)
  int prefill_chunk = 0;                  // tokens; 0: the engine's own
  double reroute_margin = 0.0;
  std::string top_k_rule = "static";
  int max_sequences = 0;  // 0: as the workload asks
  bool prefix_cache = true;
  int cpu_threads = 0;  // 0: all cores
};

}  // namespace moetune
