#include "engine/bench/op_bench_model.h"

#include <algorithm>
#include <initializer_list>

#include "engine/facts/error.h"
#include "engine/facts/size_text.h"
#include "engine/memory_plan.h"
#include "engine/presets.h"

namespace moetune {
namespace {

constexpr int kSmallVocabulary = 64;  // where no op needs the head

// The generated model with that many layers of each kind that the ops need.
ModelSpec with_layers(ModelSpec spec, const OpBenchSetup& setup, int layers) {
  const auto needs = [&](std::initializer_list<const char*> ops) {
    return std::ranges::any_of(ops, [&](const char* op) { return asks_for(setup.ops, op); });
  };
  const bool routes = spec.moe_layer_count() > 0;
  const bool needs_any =
      needs({"attention", "attention_half", "router", "experts", "routed", "shared", "moe", "layer"});
  const int dense = needs({"dense"}) || (!routes && needs_any) ? layers : 0;
  const int moe = routes && needs_any ? layers : 0;
  spec.moe_layers.assign(static_cast<std::size_t>(dense), false);
  spec.moe_layers.insert(spec.moe_layers.end(), static_cast<std::size_t>(moe), true);
  if (spec.moe_layers.empty()) spec.moe_layers.push_back(routes);  // a model has a layer
  spec.layers = static_cast<int>(spec.moe_layers.size());
  if (!asks_for(setup.ops, "head")) spec.vocabulary = std::min(spec.vocabulary, kSmallVocabulary);
  spec.fold = 1;
  return spec;
}

}  // namespace

bool reads_cache(const std::string& op) {
  return op == "attention" || op == "attention_half" || op == "layer";
}
bool asks_for(const std::vector<std::string>& ops, const std::string& op) {
  return std::ranges::find(ops, op) != ops.end();
}

EngineLimits limits_of(const OpBenchSetup& setup) {
  const bool caches = std::ranges::any_of(setup.ops, reads_cache);
  EngineLimits limits;
  limits.sequences = !caches || setup.is_prompt ? 1 : static_cast<int>(setup.tokens);
  limits.context_tokens = caches ? static_cast<int>(setup.context) : 1;
  limits.step_tokens = static_cast<int>(caches ? std::max(setup.tokens, kFillTokens) : setup.tokens);
  limits.logit_rows = asks_for(setup.ops, "head") ? limits.step_tokens : 1;
  return limits;
}

std::shared_ptr<const Checkpoint> fitted(const std::shared_ptr<const Checkpoint>& checkpoint,
                                         const EngineOptions& options, const OpBenchSetup& setup) {
  const ModelSpec& whole = checkpoint->spec();
  if (!whole.is_synthetic) return checkpoint;
  const std::int64_t read_bytes = asks_for(setup.ops, "read") ? setup.wanted_layers * setup.read_bytes : 0;
  for (int layers = setup.wanted_layers; layers >= 1; --layers) {
    const ModelSpec spec = with_layers(whole, setup, layers);
    const std::int64_t needed = plan_memory(spec, options, limits_of(setup)).total() + read_bytes;
    if (setup.device_bytes > 0 && needed > setup.device_bytes) continue;
    return std::make_shared<Checkpoint>(Preset{.spec = spec, .source = "", .seed = checkpoint->seed()});
  }
  const std::int64_t least =
      plan_memory(with_layers(whole, setup, 1), options, limits_of(setup)).total() + read_bytes;
  throw NoFeasibleConfiguration(whole.name + ": one layer needs " + size_text(least) + ", " +
                                size_text(least - setup.device_bytes) +
                                " more than there are; fewer experts or --tokens free them");
}

}  // namespace moetune
