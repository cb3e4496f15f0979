// Layouts that only presets have: their weights are generated, so only geometry and routing must be right,
// and what is approximated is said where the preset is named. Start at parse_preset_config() at the end.
#include <string>

#include "engine/config.h"
#include "engine/config_fields.h"
#include "engine/config_parts.h"
#include "engine/config_rope.h"

namespace moetune {
namespace {

using namespace config_parts;

void read_deepseek_v2(const ConfigFields& config, ModelSpec& spec) {
  read_latent_attention(config, spec);
  read_experts(config, "n_routed_experts", 2, spec);
  read_deepseek_routing(config, {"softmax", "greedy", RoutingRule::softmax_top_k, false, 0}, spec);
  read_leading_dense_layers(config, spec);
}

void read_deepseek_v4(const ConfigFields& config, ModelSpec& spec) {
  read_latent_attention(config, spec);
  read_experts(config, "n_routed_experts", 2, spec);
  read_deepseek_routing(config, {"sqrtsoftplus", "noaux_tc", RoutingRule::sqrt_softplus_bias, true, 0}, spec);
  spec.moe_layers.assign(static_cast<std::size_t>(spec.layers), true);
}

void read_olmoe(const ConfigFields& config, ModelSpec& spec) {
  read_grouped_query_attention(config, 10000.0, spec);
  spec.qk_norm = true;
  read_experts(config, "num_experts", 1, spec);
  spec.expert_inner = config.integer("intermediate_size", 1, kLargestWidth);
  spec.routing = RoutingRule::softmax_top_k;
  spec.normalize_top_k = config.flag_or("norm_topk_prob", false);
  spec.moe_layers.assign(static_cast<std::size_t>(spec.layers), true);
}

// A softmax over the chosen logits is the softmax over all of them, renormalised.
void read_gpt_oss(const ConfigFields& config, ModelSpec& spec) {
  read_grouped_query_attention(config, 150000.0, spec);
  read_experts(config, "num_local_experts", 1, spec);
  spec.expert_inner = config.integer("intermediate_size", 1, kLargestWidth);
  spec.routing = RoutingRule::softmax_top_k;
  spec.normalize_top_k = true;
  spec.moe_layers.assign(static_cast<std::size_t>(spec.layers), true);
}

void read_llama(const ConfigFields& config, ModelSpec& spec) {
  read_grouped_query_attention(config, 10000.0, spec);
  spec.dense_inner = config.integer("intermediate_size", 1, kLargestWidth);
  spec.moe_layers.assign(static_cast<std::size_t>(spec.layers), false);
}

}  // namespace

ModelSpec parse_preset_config(const nlohmann::json& root, const std::string& where) {
  const ConfigFields config(root, where);
  const std::string architecture = root.contains("architectures") && root["architectures"].is_array() &&
                                           !root["architectures"].empty() &&
                                           root["architectures"][0].is_string()
                                       ? root["architectures"][0].get<std::string>()
                                       : "";
  void (*read)(const ConfigFields&, ModelSpec&) = architecture == "DeepseekV2ForCausalLM"   ? read_deepseek_v2
                                                  : architecture == "DeepseekV4ForCausalLM" ? read_deepseek_v4
                                                  : architecture == "OlmoeForCausalLM"      ? read_olmoe
                                                  : architecture == "GptOssForCausalLM"     ? read_gpt_oss
                                                  : architecture == "LlamaForCausalLM"      ? read_llama
                                                                                            : nullptr;
  if (read == nullptr)
    return parse_model_config(root.dump(), where);  // a layout that checkpoints have as well
  ModelSpec spec;
  spec.architecture = architecture;
  read_shared_fields(config, spec);
  read(config, spec);
  return spec;
}

}  // namespace moetune
