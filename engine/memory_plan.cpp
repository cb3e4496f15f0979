// The sizes come from the same lists that allocation reads: dense_shapes.h, scratch.h, KvCache::Shape.
#include "engine/memory_plan.h"

#include <fmt/format.h>

#include "engine/decode_loop.h"
#include "engine/dense_shapes.h"
#include "engine/expert_cache.h"
#include "engine/facts/knobs.h"
#include "engine/facts/size_text.h"
#include "engine/folding.h"
#include "engine/kv_cache.h"
#include "engine/option_rules.h"
#include "engine/prefetcher.h"
#include "engine/scratch.h"
#include "engine/shard.h"

namespace moetune {
namespace {

constexpr int kFractionSteps = 64;

// "1.0 MiB even with expert_cache=0.25, the smallest": where not even that fits.
std::string missing_with_fewest_experts(const ModelSpec& spec, EngineOptions options,
                                        const EngineLimits& limits, std::int64_t device_bytes) {
  options.expert_cache_bytes = 0;
  for (int step = 1; step <= kFractionSteps; ++step) {
    options.expert_cache_fraction = static_cast<double>(step) / kFractionSteps;
    if (objection_to_options(spec, options, limits)) continue;
    return fmt::format("{} even with expert_cache={}, the smallest",
                       size_text(plan_memory(spec, options, limits).total() - device_bytes),
                       options.expert_cache_fraction);
  }
  return "no smaller expert_cache is possible";
}

// "fewer sequences, " where there is more than one to do without.
const char* fewer_sequences(const EngineOptions& options, const EngineLimits& limits) {
  return effective_limits(options, limits).sequences > 1 ? "fewer sequences, " : "";
}

std::string what_frees_enough(const ModelSpec& spec, EngineOptions options, const EngineLimits& limits,
                              std::int64_t device_bytes) {
  for (const char* format : {"int8", "int4"}) {
    set_knob(options, "expert_quant", format);
    const double fitting = largest_cache_fraction(spec, options, limits, device_bytes);
    if (fitting > 0.0) return fmt::format("expert_quant={} with expert_cache={} at most", format, fitting);
  }
  return fmt::format(
      "expert_quant=int4 and, as that alone does not do, {}a shorter context, a smaller kv_type or "
      "dense_quant",
      fewer_sequences(options, limits));
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& spec, const EngineOptions& options,
                       const EngineLimits& asked_limits) {
  const EngineLimits limits = effective_limits(options, asked_limits);
  MemoryPlan plan;
  plan.slots = cache_slots(spec, options);
  const SlotDirectory::Shape cache{.layers = spec.moe_layer_count(),
                                   .experts = spec.experts,
                                   .slots = static_cast<int>(plan.slots),
                                   .weight_layers = distinct_moe_layers(spec)};
  const bool is_resident = plan.slots == std::int64_t{cache.layers} * cache.experts;
  for (int rank = 0; rank < options.tensor_parallel; ++rank) {
    const Shard shard{rank, options.tensor_parallel};
    const ExpertLayout expert = expert_layout(spec, options, shard);
    plan.dense_bytes += dense_bytes(spec, options, shard);
    plan.kv_bytes +=
        KvCache::Shape::of(spec, options, shard, limits.sequences, limits.context_tokens).bytes();
    for (const ScratchItem& item : scratch_items(spec, shard, limits.step_tokens, limits.logit_rows))
      plan.scratch_bytes += item.bytes();
    plan.scratch_bytes += op_scratch_bytes(spec, options, shard, limits.step_tokens);
    if (options.tensor_parallel == 1)
      plan.scratch_bytes += DecodeLoop::bytes_of(limits.sequences, limits.context_tokens);
    if (cache.layers == 0) continue;
    const ExpertCache::Missing missing = missing_experts(spec, options);
    plan.expert_bytes += ExpertCache::device_bytes_of(cache, expert, missing);
    const bool device_guesses = missing == ExpertCache::Missing::fetched_by_device;
    if (!is_resident)
      plan.scratch_bytes += Prefetcher::bytes_of(spec, options.prefetch,
                                                 {limits.sequences, limits.step_tokens, device_guesses});
    if (!is_resident) plan.host_bytes += std::int64_t{cache.weight_layers} * cache.experts * expert.bytes;
  }
  if (missing_experts(spec, options) == ExpertCache::Missing::stays_outside)  // the host's own copy
    plan.host_bytes += host_experts_bytes(spec, options);
  return plan;
}

std::optional<std::string> objection_to(const ModelSpec& spec, const EngineOptions& options,
                                        const EngineLimits& limits, std::int64_t device_bytes) {
  if (const auto objection = objection_to_options(spec, options, limits)) return objection->text();
  if (device_bytes <= 0) return std::nullopt;
  const MemoryPlan plan = plan_memory(spec, options, limits);
  if (plan.total() <= device_bytes) return std::nullopt;
  const double fitting = largest_cache_fraction(spec, options, limits, device_bytes);
  const std::string missing = fmt::format("{} needed, {} there, {} missing", size_text(plan.total()),
                                          size_text(device_bytes), size_text(plan.total() - device_bytes));
  if (options.device == DeviceKind::cuda && fitting == 0.0)
    return Objection{
        "memory",
        fmt::format("{} with every expert on the GPU (experts {}, dense {}, KV cache {}, scratch {})",
                    missing, size_text(plan.expert_bytes), size_text(plan.dense_bytes),
                    size_text(plan.kv_bytes), size_text(plan.scratch_bytes)),
        fmt::format("fewer bits (expert_quant, dense_quant, kv_type), {}a shorter context",
                    fewer_sequences(options, limits))}
        .text();
  if (fitting > 0.0) return Objection{"expert_cache", missing, fmt::format("at most {}", fitting)}.text();
  return Objection{
      "memory",
      fmt::format("{}; {} (dense {}, KV cache {}, scratch {})", missing,
                  missing_with_fewest_experts(spec, options, limits, device_bytes),
                  size_text(plan.dense_bytes), size_text(plan.kv_bytes), size_text(plan.scratch_bytes)),
      what_frees_enough(spec, options, limits, device_bytes)}
      .text();
}

double largest_cache_fraction(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits,
                              std::int64_t device_bytes) {
  EngineOptions candidate = options;
  candidate.expert_cache_bytes = 0;
  for (int step = kFractionSteps; step >= 1; --step) {
    candidate.expert_cache_fraction = static_cast<double>(step) / kFractionSteps;
    if (objection_to_options(spec, candidate, limits)) continue;
    if (device_bytes <= 0 || plan_memory(spec, candidate, limits).total() <= device_bytes)
      return candidate.expert_cache_fraction;
  }
  return 0.0;
}

}  // namespace moetune
