// What the readers of several layouts share: config.cpp for checkpoints, config_presets.cpp for presets.
#pragma once

#include <string>

#include "engine/config_fields.h"
#include "engine/facts/model_spec.h"

namespace moetune::config_parts {

// Bounds that no model reaches; products of any three of them stay far below 2^63.
inline constexpr int kLargestWidth = 1 << 20;
inline constexpr int kMostLayers = 4096;
inline constexpr int kMostHeads = 4096;
inline constexpr int kMostExperts = 1 << 16;
inline constexpr int kLargestVocabulary = 1 << 24;
inline constexpr int kLongestContext = 1 << 28;

// Widths, lengths and heads that every layout has.
void read_shared_fields(const ConfigFields& config, ModelSpec& spec);
void read_grouped_query_attention(const ConfigFields& config, double default_theta, ModelSpec& spec);
void read_latent_attention(const ConfigFields& config, ModelSpec& spec);
// Number of routed experts, at least `fewest`, and how many a token gets.
void read_experts(const ConfigFields& config, const std::string& experts_field, int fewest, ModelSpec& spec);
void read_expert_groups(const ConfigFields& config, ModelSpec& spec);
// How the versions of DeepSeek's models score and choose their experts.
struct DeepseekRouting {
  const char* scoring_func;
  const char* topk_method;
  RoutingRule rule;
  bool norm_topk_prob;   // where the field is absent
  int n_shared_experts;  // likewise, and the fewest that are accepted
};
void read_deepseek_routing(const ConfigFields& config, const DeepseekRouting& routing, ModelSpec& spec);
// The first layers of DeepSeek's models are dense, first_k_dense_replace says how many; all others route.
// Their width: intermediate_size.
void read_leading_dense_layers(const ConfigFields& config, ModelSpec& spec);

}  // namespace moetune::config_parts
