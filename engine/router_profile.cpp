#include "engine/router_profile.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

#include "engine/checkpoint.h"
#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "engine/route_changes.h"
#include "engine/tokenizer.h"

namespace moetune {
namespace {

constexpr int profile_tokens = 256;
constexpr int profile_step = 64;

std::mutex& profiles_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Mean shares, (layers that route, native k), by model and number types.
std::map<std::string, std::vector<double>>& profiles() {
  static std::map<std::string, std::vector<double>> known;
  return known;
}

std::string key_of(const ModelSpec& spec, const EngineOptions& options) {
  std::string key = spec.content_hash;
  for (const char* knob : {"expert_quant", "dense_quant", "kv_type"})
    key += std::string(" ") + knob_named(knob).get(options);
  return key;
}

std::vector<double> measured_shares(const std::shared_ptr<const Checkpoint>& checkpoint,
                                    const EngineOptions& options) {
  const ModelSpec& spec = checkpoint->spec();
  EngineOptions plain = options;
  plain.top_k = 0;
  plain.top_k_rule = "static";
  plain.reroute_margin = 0.0;
  plain.prefetch = Prefetch::none;
  plain.prefill_chunk = 0;
  plain.tensor_parallel = 1;
  // The native top_k may need more slots than the configuration has.
  const double all = static_cast<double>(std::int64_t{spec.moe_layer_count()} * spec.experts);
  plain.expert_cache_fraction = std::max(static_cast<double>(cache_slots(spec, options)) / all,
                                         static_cast<double>(spec.experts_per_token) / spec.experts);
  plain.expert_cache_bytes = 0;
  const int tokens = std::min(profile_tokens, spec.max_context);
  const int step_tokens = std::min(profile_step, tokens);
  Engine engine(checkpoint, plain,
                {.sequences = 1, .context_tokens = tokens, .step_tokens = step_tokens, .logit_rows = 1});
  std::vector<int> row_of_layer;
  for (int next = 0; const bool routes : spec.moe_layers) row_of_layer.push_back(routes ? next++ : -1);
  const auto width = static_cast<std::size_t>(spec.experts_per_token);
  std::vector<double> shares(static_cast<std::size_t>(spec.moe_layer_count()) * width, 0.0);
  engine.observe_routing([&](int layer, std::span<const std::int32_t>, std::span<const float> weights, int,
                             int) {
    const std::size_t row = static_cast<std::size_t>(row_of_layer[static_cast<std::size_t>(layer)]) * width;
    for (std::size_t first = 0; first < weights.size(); first += width) {
      const auto of_token = weights.subspan(first, width);
      const double sum = std::accumulate(of_token.begin(), of_token.end(), 0.0);
      for (std::size_t i = 0; i < width; ++i)
        shares[row + i] += static_cast<double>(of_token[i]) / sum / tokens;
    }
  });
  engine.prefill(0, calibration_tokens(*checkpoint, "", tokens).window(0, tokens));
  return shares;
}

}  // namespace

bool has_layer_experts(const ModelSpec& spec, const EngineOptions& options) {
  const std::lock_guard lock(profiles_mutex());
  return profiles().contains(key_of(spec, options));
}

std::vector<int> layer_experts(const std::shared_ptr<const Checkpoint>& checkpoint,
                               const EngineOptions& options) {
  const ModelSpec& spec = checkpoint->spec();
  const std::lock_guard lock(profiles_mutex());
  auto [profile, is_new] = profiles().try_emplace(key_of(spec, options));
  if (is_new) {
    try {
      profile->second = measured_shares(checkpoint, options);
    } catch (...) {
      profiles().erase(profile);
      throw;
    }
  }
  return experts_of_layers(profile->second, spec.experts_per_token,
                           effective_top_k(spec, options) * spec.moe_layer_count());
}

}  // namespace moetune
