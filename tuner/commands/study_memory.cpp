#include "tuner/commands/study_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "engine/facts/knob_text.h"
#include "engine/facts/knobs.h"
#include "engine/facts/size_text.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/probe.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr std::uint64_t most_looked_at = 1 << 16;  // for a message: larger spaces are looked at in part

// A host cache must not hold what a folded model is about to read again: ten times its size is far enough.
constexpr std::int64_t cache_distance = 10;
// The same for a GPU's L2 cache, the largest of which hold 60 MB (H200) to 126 MB (B200).
constexpr std::int64_t gpu_reuse_bytes = std::int64_t{256} << 20;

// Why a recommendation would not do although the folded model runs: what the model itself takes.
std::optional<std::string> objection_unfolded(const ModelSpec& folded, const Workload& workload,
                                              const EngineOptions& options, std::int64_t bytes) {
  if (folded.fold <= 1 || bytes <= 0) return std::nullopt;
  ModelSpec whole = folded;
  whole.fold = 1;
  const std::int64_t needed = plan_memory(whole, options, limits_of(workload, options)).total();
  if (needed <= bytes) return std::nullopt;
  return fmt::format("the model itself, not folded, would take {}, {} more than the {} there",
                     size_text(needed), size_text(needed - bytes), size_text(bytes));
}

}  // namespace

double largest_share(const Study& study, EngineOptions options) {
  const EngineLimits limits = limits_of(study.workload, options);
  const double share = largest_cache_fraction(study.model, options, limits, study.hardware.device_bytes);
  if (!study.is_for_launch) return share;
  constexpr int steps = 64;  // largest_cache_fraction()'s own
  for (auto step = static_cast<int>(std::lround(share * steps)); step >= 1; --step) {
    options.expert_cache_fraction = static_cast<double>(step) / steps;
    if (!objection_unfolded(study.model, study.workload, options, study.hardware.device_bytes) &&
        !objection_to_options(study.model, options, limits))
      return options.expert_cache_fraction;
  }
  return 0.0;
}

Fold fold_for(const ModelSpec& spec, const std::vector<Workload>& workloads,
              const HardwareFingerprint& hardware, DeviceKind device) {
  const std::int64_t distance = cold_reuse_bytes(device);
  Fold most;
  for (const Workload& workload : workloads) {
    const Fold fold = choose_fold(spec, default_options(device), limits_of(workload, default_options(device)),
                                  hardware.device_bytes, distance);
    if (fold.fold == 0) return fold;
    if (fold.fold > most.fold) most = fold;
  }
  // What does not fit is cached, and a GPU's cache reads pinned memory.
  if (device == DeviceKind::cuda && most.fold > 1)
    for (ModelSpec folded = spec; folded.fold < spec.layers; ++folded.fold) {
      if (folded.fold < most.fold) continue;
      if (reuse_distance_bytes(folded, default_options(device)) <= distance) break;
      most.fold = folded.fold;
      if (std::int64_t{distinct_moe_layers(folded)} * spec.experts *
              expert_bytes(folded, default_options(device)) <=
          pinned_limit(folded))
        break;
    }
  return most;
}

std::optional<std::string> objection_of(const ModelSpec& model, const Workload& workload,
                                        const EngineOptions& options, std::int64_t bytes) {
  if (const auto objection = objection_to_load(workload, options)) return objection->text();
  return objection_to(model, options, limits_of(workload, options), bytes);
}

bool is_about_memory(const Study& study, const Configuration& configuration) {
  return !study.made_up && study.objection(configuration) &&
         !objection_of(study.model, study.workload, options_of(configuration, study.device, 0), 0);
}

Study for_launch(Study study) {
  if (study.made_up || study.model.fold <= 1) return study;
  study.is_for_launch = true;
  study.remarks.push_back(fmt::format(
      "folded x{} to be measured; what the model itself does not fit with is left out", study.model.fold));
  const auto also = [](const auto& first, const auto& then) {
    return [first, then](const Configuration& configuration) -> std::optional<std::string> {
      if (const auto objection = first(configuration)) return objection;
      return then(configuration);
    };
  };
  const auto whole = [model = study.model, workload = study.workload, kind = study.device,
                      memory = study.hardware.device_bytes](const Configuration& configuration) {
    return objection_unfolded(model, workload, options_of(configuration, kind, 0), memory);
  };
  study.objection = also(study.objection, whole);
  study.kind_of_objection = also(study.kind_of_objection,
                                 [whole](const Configuration& configuration) -> std::optional<std::string> {
                                   if (whole(configuration)) return "does not fit without folding";
                                   return std::nullopt;
                                 });
  return study;
}

std::int64_t cold_reuse_bytes(DeviceKind device) {
  return device == DeviceKind::cuda ? gpu_reuse_bytes : cache_distance * last_level_cache_bytes();
}

std::int64_t missing_bytes(const Study& study, const Configuration& configuration) {
  const EngineOptions options = options_of(configuration, study.device, 0);
  return plan_memory(study.model, options, limits_of(study.workload, options)).total() -
         study.hardware.device_bytes;
}

std::optional<Misfit> nearest_misfit(const Study& study, const SearchSpace& space) {
  ModelSpec launched = study.model;
  if (study.is_for_launch) launched.fold = 1;
  std::optional<Configuration> nearest;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t rank = 0; rank < std::min(space.declared_size(), most_looked_at); ++rank) {
    const Configuration configuration = space.at(rank);
    const EngineOptions options = options_of(configuration, study.device, 0);
    if (space.objection(configuration) || objection_of(study.model, study.workload, options, 0)) continue;
    const std::int64_t bytes = plan_memory(launched, options, limits_of(study.workload, options)).total();
    if (bytes >= least) continue;
    least = bytes;
    nearest = configuration;
  }
  if (!nearest) return std::nullopt;
  const std::int64_t missing = least - study.hardware.device_bytes;
  std::string text = fmt::format(
      "no configuration fits: the nearest, {}, needs {}, {} more than the {} there", nearest->key(),
      size_text(least), size_text(missing), size_text(study.hardware.device_bytes));
  // One more step of one knob, in the order of what it costs in accuracy.
  const EngineOptions options = options_of(*nearest, study.device, 0);
  const EngineLimits limits = limits_of(study.workload, options);
  const double share = largest_share(study, options);
  if (share > 0.0)
    return Misfit{text + fmt::format("; expert_cache={} would free them", number_text(share)), missing};
  constexpr std::array candidates = {std::pair{"expert_quant", "int4"}, std::pair{"kv_type", "bf16"},
                                     std::pair{"dense_quant", "int8"}, std::pair{"dense_quant", "int4"}};
  for (const auto& [knob, value] : candidates) {
    EngineOptions changed = options;
    set_knob(changed, knob, value);
    if (objection_to(study.model, changed, limits, 0)) continue;
    const double fitting = largest_share(study, changed);
    if (fitting == 0.0) continue;
    changed.expert_cache_fraction = std::min(changed.expert_cache_fraction, fitting);
    if (!objection_to(study.model, changed, limits, study.hardware.device_bytes))
      return Misfit{text + fmt::format("; {}={} with expert_cache={} would free them", knob, value,
                                       number_text(changed.expert_cache_fraction)),
                    missing};
  }
  return Misfit{text + "; no knob frees them: a shorter workload or more --device-memory does", missing};
}

}  // namespace moetune
