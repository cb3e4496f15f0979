// Bytes an engine will hold for given options, computed before anything is allocated. Start at plan_memory().
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"

namespace moetune {

struct MemoryPlan {
  std::int64_t dense_bytes = 0;   // everything but routed experts
  std::int64_t expert_bytes = 0;  // resident slots
  std::int64_t kv_bytes = 0;
  std::int64_t scratch_bytes = 0;
  std::int64_t host_bytes = 0;  // experts kept outside (spill file, pinned memory, the host's own copy)
  std::int64_t slots = 0;  // expert slots, over all MoE layers and all ranks' shares counted once; those that
                           // a folded model shares are counted for each layer, their bytes once
  std::int64_t total() const { return dense_bytes + expert_bytes + kv_bytes + scratch_bytes; }
};

MemoryPlan plan_memory(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits);

// Why the model or the machine cannot take these options (knob, value, what is accepted), before loading;
// empty: it can. device_bytes: memory to stay within; 0: no limit. Checks ranges, tensor_parallel splits
// (heads, inner widths, whole quantization blocks), the lower bound of layers x top_k cache slots, memory.
std::optional<std::string> objection_to(const ModelSpec& spec, const EngineOptions& options,
                                        const EngineLimits& limits, std::int64_t device_bytes);

// The largest expert_cache share (a multiple of 1/64 at most 1) that fits beside everything else, 0 when none
// does.
double largest_cache_fraction(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits,
                              std::int64_t device_bytes);

}  // namespace moetune
