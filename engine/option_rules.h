// What options a model can take in this build, and what they come to. Start at objection_to_options();
// memory_plan.h adds the memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/expert_cache.h"
#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"

namespace moetune {

struct Objection {
  std::string knob;
  std::string found;
  std::string accepted;
  std::string text() const { return knob + ": " + found + " (accepted: " + accepted + ")"; }
};

// The first rule that model, options and limits break together; memory is not looked at.
std::optional<Objection> objection_to_options(const ModelSpec& spec, const EngineOptions& options,
                                              const EngineLimits& limits);

// What holds where nobody chose: the checkpoint as it is, resident, on one rank, routed where it is computed.
EngineOptions default_options(DeviceKind device);

// Experts per token in effect.
inline int effective_top_k(const ModelSpec& spec, const EngineOptions& options) {
  return options.top_k > 0 ? options.top_k : spec.experts_per_token;
}

// Places of a token's list of experts: what observers and sources of routing see. Under per_layer some layers
// have more than top_k, and -1 fills the lists of the others.
inline int routing_width(const ModelSpec& spec, const EngineOptions& options) {
  return options.top_k_rule == "per_layer" ? spec.experts_per_token : effective_top_k(spec, options);
}

// Limits in effect: max_sequences holds down sequences and prefill_chunk decides step_tokens where they are
// set, logit_rows is filled in.
EngineLimits effective_limits(const EngineOptions& options, const EngineLimits& limits);

// Slots of the expert cache over all layers; one slot holds one expert, over all ranks. At most all experts.
std::int64_t cache_slots(const ModelSpec& spec, const EngineOptions& options);

// What becomes of experts that are not resident.
ExpertCache::Missing missing_experts(const ModelSpec& spec, const EngineOptions& options);

// Bytes of one routed expert over all ranks.
std::int64_t expert_bytes(const ModelSpec& spec, const EngineOptions& options);

// Of all experts in the form in which the host computes those that have no slot (miss=cpu on a GPU).
std::int64_t host_experts_bytes(const ModelSpec& spec, const EngineOptions& options);

// Is there room for all experts in pinned memory, beside the host's own copy where it computes?
bool may_pin_experts(const ModelSpec& spec, const EngineOptions& options);

}  // namespace moetune
