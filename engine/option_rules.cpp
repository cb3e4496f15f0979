// Start at objection_to_options(): one rule after the other, the first that is broken speaks.
#include "engine/option_rules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "engine/dense_shapes.h"
#include "engine/facts/knobs.h"
#include "engine/folding.h"
#include "engine/pinned_pool.h"
#include "engine/shard.h"
#include "engine/slot_directory.h"
#include "engine/untried.h"
#include "kernels/parallel_for.h"

namespace moetune {
namespace {

using Rule = std::optional<Objection>;

constexpr std::array kWeightTypes{NumberType::f32,      NumberType::f16,  NumberType::bf16,
                                  NumberType::fp8,      NumberType::int8, NumberType::int4,
                                  NumberType::int4_g32, NumberType::mxfp4};
constexpr std::array kKvTypes{NumberType::f32, NumberType::f16, NumberType::bf16, NumberType::fp8,
                              NumberType::int8};
constexpr std::array kDegrees{1, 2, 4, 8};

template <class Values>
std::string listed(const Values& values) {
  return fmt::format("{}", fmt::join(values, ", "));
}

template <class Types>
Rule type_rule(const char* knob, const std::optional<NumberType>& type, const Types& types) {
  if (!type || std::ranges::find(types, *type) != types.end()) return std::nullopt;
  std::string names;
  for (const NumberType known : types) names += (names.empty() ? "" : ", ") + std::string(name_of(known));
  return Objection{knob, fmt::format("{} is not implemented", name_of(*type)), names};
}

Rule top_k_rule(const ModelSpec& spec, const EngineOptions& options) {
  if (options.top_k >= 0 && options.top_k <= spec.experts_per_token) return std::nullopt;
  return Objection{"top_k", std::to_string(options.top_k),
                   fmt::format("1 .. {}, the model's own", spec.experts_per_token)};
}

Rule cache_rule(const ModelSpec& spec, const EngineOptions& options) {
  if (!(options.expert_cache_fraction > 0.0 && options.expert_cache_fraction <= 1.0) ||
      options.expert_cache_bytes < 0)
    return Objection{"expert_cache", knob_named("expert_cache").get(options),
                     std::string(knob_named("expert_cache").accepted)};
  const std::int64_t least = std::int64_t{spec.moe_layer_count()} * effective_top_k(spec, options);
  const std::int64_t slots = cache_slots(spec, options);
  if (slots >= least) return std::nullopt;
  const std::int64_t all = std::int64_t{spec.moe_layer_count()} * spec.experts;
  return Objection{
      "expert_cache",
      fmt::format("{} holds {} of {} experts", knob_named("expert_cache").get(options), slots, all),
      fmt::format("at least {} (layers x top_k): a share of {:.4f}, or {}B", least,
                  std::ceil(1e4 * static_cast<double>(least) / static_cast<double>(all)) / 1e4,
                  least * expert_bytes(spec, options))};
}

bool cuts_group(const std::optional<NumberType>& type, std::int64_t part) {
  const int group = type ? quantization_group(*type) : 0;
  return group > 0 && part % group != 0;
}

// Why a model cannot be split over that many ranks; empty: it can.
std::string split_obstacle(const ModelSpec& spec, const EngineOptions& options, int ranks) {
  if (ranks == 1) return "";
  if (spec.heads % ranks != 0) return fmt::format("{} heads do not divide", spec.heads);
  if (spec.attention == AttentionKind::gqa && spec.kv_heads % ranks != 0 && ranks % spec.kv_heads != 0)
    return fmt::format("{} key/value heads do not divide", spec.kv_heads);
  const auto inner_obstacle = [&](const char* what, std::int64_t inner,
                                  const std::optional<NumberType>& type) -> std::string {
    if (inner % ranks != 0) return fmt::format("{} {} does not divide", what, inner);
    if (cuts_group(type, inner / ranks))
      return fmt::format("{} {} is cut into parts of {}, inside a quantization group of {}", what, inner,
                         inner / ranks, quantization_group(*type));
    return "";
  };
  const bool has_dense_layers = spec.moe_layer_count() < spec.layers;
  const NumberType dense_type = options.dense_quant.value_or(spec.dense_number_type());
  std::string obstacle = inner_obstacle("expert inner width", spec.expert_inner, expert_type(spec, options));
  if (obstacle.empty() && has_dense_layers)
    obstacle = inner_obstacle("dense inner width", spec.dense_inner, dense_type);
  if (obstacle.empty() && spec.shared_experts > 0)
    obstacle = inner_obstacle("shared inner width", std::int64_t{spec.shared_experts} * spec.expert_inner,
                              dense_type);
  if (obstacle.empty())
    obstacle = inner_obstacle("attention output width", std::int64_t{spec.heads} * value_head_width(spec),
                              dense_type);
  return obstacle;
}

Rule tensor_parallel_rule(const ModelSpec& spec, const EngineOptions& options) {
  std::vector<int> possible;
  for (const int degree : kDegrees)
    if (split_obstacle(spec, options, degree).empty()) possible.push_back(degree);
  if (std::ranges::find(kDegrees, options.tensor_parallel) == kDegrees.end())
    return Objection{"tensor_parallel", std::to_string(options.tensor_parallel), listed(possible)};
  const std::string obstacle = split_obstacle(spec, options, options.tensor_parallel);
  if (obstacle.empty()) return std::nullopt;
  return Objection{"tensor_parallel", fmt::format("{}: {}", options.tensor_parallel, obstacle),
                   listed(possible)};
}

Rule thread_rule(const EngineOptions& options) {
  static const int cores = usable_cores();  // read once: a tuner asks this for thousands of configurations
  if (options.cpu_threads >= 0 && options.cpu_threads <= cores) return std::nullopt;
  return Objection{"cpu_threads", std::to_string(options.cpu_threads),
                   fmt::format("1 .. {}, the cores here", cores)};
}

// Where the layers run, and what a GPU does not do in this build. Whether there is a GPU is not looked at:
// the tuner's process asks these rules too, and it must not touch one. Cuda's constructor says when there is
// none.
Rule placement_rule(const EngineOptions& options) {
  if (options.device == DeviceKind::cpu) {
    if (options.router == RouterPlacement::gpu) return Objection{"router", "gpu needs a GPU", "cpu"};
    return std::nullopt;
  }
#if !MOETUNE_HAS_CUDA
  return Objection{"device", "cuda: this build has no GPU code", "cpu"};
#endif
  if (options.tensor_parallel > 1)
    return Objection{"tensor_parallel", "above 1: this build runs a model on one GPU", "1"};
  return std::nullopt;
}

std::int64_t store_bytes(const ModelSpec& spec, const EngineOptions& options) {
  return std::int64_t{distinct_moe_layers(spec)} * spec.experts * expert_bytes(spec, options);
}

// What a cache on a GPU needs beside its slots.
Rule gpu_cache_rule(const ModelSpec& spec, const EngineOptions& options) {
  const std::int64_t slots = cache_slots(spec, options);
  if (options.device == DeviceKind::cpu || slots == std::int64_t{spec.moe_layer_count()} * spec.experts)
    return std::nullopt;
  const SlotDirectory directory({.layers = spec.moe_layer_count(),
                                 .experts = spec.experts,
                                 .slots = static_cast<int>(slots),
                                 .policy = options.cache_policy});
  // One token's experts lie beside each other, so that it runs through the kernels of the resident model.
  if (const int k = effective_top_k(spec, options); directory.slots_for_sure(0) < k)
    return Objection{
        "cache_policy",
        fmt::format("pinned: hot experts leave {} of {} slots", directory.slots_for_sure(0), slots),
        fmt::format("layer_lru, or a larger expert_cache (at least {} slots free)", k)};
  const std::int64_t store = store_bytes(spec, options);
  if (options.miss == MissHandling::pull && store > pinned_limit(spec))
    return Objection{"miss",
                     fmt::format("pull reads {} bytes of experts from pinned memory, {} may be pinned", store,
                                 pinned_limit(spec)),
                     "dma, fewer bits (expert_quant), more folding of a preset (fold=)"};
  if (options.miss == MissHandling::cpu) {
    const std::int64_t copy = host_experts_bytes(spec, options);
    if (copy > host_store_limit())
      return Objection{"miss",
                       fmt::format("cpu keeps {} bytes of experts in the host's memory, {} may be taken",
                                   copy, host_store_limit()),
                       "dma, fewer bits (expert_quant), more folding of a preset (fold=)"};
  }
  return std::nullopt;
}

Rule gpu_type_rule(const ModelSpec& spec, const EngineOptions& options) {
  if (options.device == DeviceKind::cpu || expert_type(spec, options) != NumberType::f32) return std::nullopt;
  return Objection{"expert_quant", "f32 experts: a GPU's tensor cores do not take them",
                   "bf16, int8, int4, int4_g32"};
}

// Who decides about slots must be the one who guesses.
Rule prefetch_rule(const ModelSpec& spec, const EngineOptions& options) {
  using Missing = ExpertCache::Missing;
  const Missing missing = missing_experts(spec, options);
  if (options.prefetch == Prefetch::none || missing == Missing::fetched_by_host) return std::nullopt;
  const std::string found =
      fmt::format("{} with miss={}", knob_named("prefetch").get(options), knob_named("miss").get(options));
  if (missing == Missing::stays_outside)
    return Objection{"prefetch", found + ": what has no slot is computed where it is",
                     "none, or miss=dma, miss=pull"};
  if (options.device == DeviceKind::cuda && options.router == RouterPlacement::cpu)
    return Objection{"prefetch", found + " and router=cpu: a step is cut where the host has its part",
                     "none, router=gpu, or miss=dma"};
  return std::nullopt;
}

// Knobs that this build reads but does not act on: saying so is better than ignoring them.
Rule unsupported_rule(const EngineOptions& options) {
  if (Rule rule = placement_rule(options)) return rule;
  const EngineOptions defaults;
  for (const char* name : {"miss", "cuda_graph", "expert_parallel"}) {
    if (name == std::string_view("cuda_graph") && options.device == DeviceKind::cuda) continue;
    if (name == std::string_view("miss") &&
        (options.device == DeviceKind::cuda || takes_untried(kUntriedDeviceLookUp)))
      continue;
    const Knob& knob = knob_named(name);
    if (knob.get(options) != knob.get(defaults))
      return Objection{name, knob.get(options) + ": this build does not act on it yet", knob.get(defaults)};
  }
  return std::nullopt;
}

Rule limit_rule(const ModelSpec& spec, const EngineOptions& options, const EngineLimits& limits) {
  const auto at_least = [](const char* what, int value, int least) -> Rule {
    if (value >= least) return std::nullopt;
    return Objection{what, std::to_string(value), fmt::format("at least {}", least)};
  };
  if (limits.context_tokens > spec.max_context)
    return Objection{"context_tokens", std::to_string(limits.context_tokens),
                     fmt::format("1 .. {}, the model's own", spec.max_context)};
  for (const Rule& rule :
       {at_least("sequences", limits.sequences, 1), at_least("context_tokens", limits.context_tokens, 1),
        at_least("step_tokens", limits.step_tokens, 1), at_least("logit_rows", limits.logit_rows, 0),
        at_least("prefill_chunk", options.prefill_chunk, 0)})
    if (rule) return rule;
  return std::nullopt;
}

}  // namespace

EngineOptions default_options(DeviceKind device) {
  EngineOptions options;
  options.device = device;
  options.router = device == DeviceKind::cuda ? RouterPlacement::gpu : RouterPlacement::cpu;
  return options;
}

std::optional<Objection> objection_to_options(const ModelSpec& spec, const EngineOptions& options,
                                              const EngineLimits& limits) {
  if (Rule rule = top_k_rule(spec, options)) return rule;
  if (Rule rule = type_rule("expert_quant", options.expert_quant, kWeightTypes)) return rule;
  if (Rule rule = type_rule("dense_quant", options.dense_quant, kWeightTypes)) return rule;
  if (Rule rule = type_rule("kv_type", options.kv_type, kKvTypes)) return rule;
  if (Rule rule = tensor_parallel_rule(spec, options)) return rule;
  if (Rule rule = cache_rule(spec, options)) return rule;
  if (Rule rule = thread_rule(options)) return rule;
  if (Rule rule = unsupported_rule(options)) return rule;
  if (Rule rule = prefetch_rule(spec, options)) return rule;
  if (Rule rule = gpu_type_rule(spec, options)) return rule;
  if (Rule rule = gpu_cache_rule(spec, options)) return rule;
  return limit_rule(spec, options, limits);
}

EngineLimits effective_limits(const EngineOptions& options, const EngineLimits& limits) {
  EngineLimits effective = limits;
  if (options.max_sequences > 0) effective.sequences = std::min(options.max_sequences, limits.sequences);
  if (options.prefill_chunk > 0) effective.step_tokens = std::max(options.prefill_chunk, effective.sequences);
  if (limits.logit_rows == 0 || limits.logit_rows > effective.step_tokens)
    effective.logit_rows = effective.step_tokens;
  return effective;
}

ExpertCache::Missing missing_experts(const ModelSpec& spec, const EngineOptions& options) {
  using Missing = ExpertCache::Missing;
  const bool is_resident = cache_slots(spec, options) == std::int64_t{spec.moe_layer_count()} * spec.experts;
  const bool does_as_a_gpu = options.device == DeviceKind::cuda || takes_untried(kUntriedDeviceLookUp);
  if (is_resident || !does_as_a_gpu || options.miss == MissHandling::dma) return Missing::fetched_by_host;
  return options.miss == MissHandling::pull ? Missing::fetched_by_device : Missing::stays_outside;
}

std::int64_t expert_bytes(const ModelSpec& spec, const EngineOptions& options) {
  std::int64_t bytes = 0;
  for (int rank = 0; rank < options.tensor_parallel; ++rank)
    bytes += expert_layout(spec, options, Shard{rank, options.tensor_parallel}).bytes;
  return bytes;
}

std::int64_t host_experts_bytes(const ModelSpec& spec, const EngineOptions& options) {
  std::int64_t bytes = 0;  // of one expert, over all ranks
  for (int rank = 0; rank < options.tensor_parallel; ++rank)
    bytes += ExpertLayout::of(expert_type(spec, options), spec.hidden,
                              Shard{rank, options.tensor_parallel}.expert_inner(spec).count)
                 .bytes;
  return std::int64_t{distinct_moe_layers(spec)} * spec.experts * bytes;
}

bool may_pin_experts(const ModelSpec& spec, const EngineOptions& options) {
  const std::int64_t pinned = store_bytes(spec, options);
  const bool has_copy = missing_experts(spec, options) == ExpertCache::Missing::stays_outside;
  return pinned <= pinned_limit(spec) &&
         pinned + (has_copy ? host_experts_bytes(spec, options) : 0) <= host_store_limit();
}

std::int64_t cache_slots(const ModelSpec& spec, const EngineOptions& options) {
  const std::int64_t all = std::int64_t{spec.moe_layer_count()} * spec.experts;
  if (options.expert_cache_bytes > 0)
    return std::min(all, options.expert_cache_bytes / expert_bytes(spec, options));
  constexpr double rounding = 1e-9;  // so that 0.3 of 10 is 3
  return std::min(
      all, static_cast<std::int64_t>(options.expert_cache_fraction * static_cast<double>(all) + rounding));
}

}  // namespace moetune
