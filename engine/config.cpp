// Start at parse_model_config() at the end: one reader per architecture over the fields they share.
// A field that decides a shape or a number must be there; a default is taken only where transformers has one
// that every published checkpoint of the layout agrees with. Fields that change nothing here (dropout, token
// ids, cache) are not read.
#include "engine/config.h"

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "engine/config_fields.h"
#include "engine/config_parts.h"
#include "engine/config_rope.h"
#include "engine/facts/error.h"
#include "engine/strict_json.h"

namespace moetune {
namespace {

using namespace config_parts;

constexpr const char* kArchitectures = "DeepseekV3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM";

void check_rotary_dim(const ConfigFields& config, const std::string& field, int dim) {
  if (dim % 2 != 0)
    config.refuse(field, fmt::format("{} is odd", dim), "an even number: rotary embeddings rotate pairs");
}

void read_number_type(const ConfigFields& config, ModelSpec& spec) {
  const std::string field = config.spelling({"dtype", "torch_dtype"});
  if (!config.has(field)) return;
  const std::string name = config.text(field);
  if (name == "bfloat16") {
    spec.checkpoint_type = NumberType::bf16;
  } else if (name == "float16") {
    spec.checkpoint_type = NumberType::f16;
  } else if (name == "float32") {
    spec.checkpoint_type = NumberType::f32;
  } else {
    config.refuse(field, shown(config.at(field)), "bfloat16, float16, float32");
  }
}

// Every layer dense would leave nothing to tune, and nearly always means a config that was edited wrongly.
void check_some_layer_routes(const ConfigFields& config, const std::string& field, const ModelSpec& spec) {
  if (spec.moe_layer_count() == 0) {
    config.refuse(field,
                  fmt::format("{} leaves no layer of {} with experts",
                              config.has(field) ? shown(config.at(field)) : "its default", spec.layers),
                  "at least one MoE layer");
  }
}

void read_dense_inner(const ConfigFields& config, ModelSpec& spec) {
  if (spec.moe_layer_count() < spec.layers)
    spec.dense_inner = config.integer("intermediate_size", 1, kLargestWidth);
}

}  // namespace

namespace config_parts {

void read_shared_fields(const ConfigFields& config, ModelSpec& spec) {
  if (config.has("quantization_config")) {
    config.refuse("quantization_config", shown(config.at("quantization_config")),
                  "checkpoints in f32, f16 or bf16; use the unquantized one");
  }
  read_number_type(config, spec);
  spec.layers = config.integer("num_hidden_layers", 1, kMostLayers);
  spec.hidden = config.integer("hidden_size", 1, kLargestWidth);
  spec.vocabulary = config.integer("vocab_size", 1, kLargestVocabulary);
  spec.max_context = config.integer("max_position_embeddings", 1, kLongestContext);
  spec.rms_eps = config.number("rms_norm_eps", 0.0, 1.0);
  spec.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  spec.heads = config.integer("num_attention_heads", 1, kMostHeads);
  config.accept_only("hidden_act", "silu", "");
}

void read_grouped_query_attention(const ConfigFields& config, double default_theta, ModelSpec& spec) {
  spec.attention = AttentionKind::gqa;
  spec.kv_heads = config.integer_or("num_key_value_heads", spec.heads, 1, kMostHeads);
  if (spec.heads % spec.kv_heads != 0) {
    config.refuse("num_key_value_heads",
                  fmt::format("{} does not divide num_attention_heads {}", spec.kv_heads, spec.heads),
                  "a divisor of num_attention_heads");
  }
  if (config.has("head_dim")) {
    spec.head_dim = config.integer("head_dim", 1, kLargestWidth);
  } else if (spec.hidden % spec.heads == 0) {
    spec.head_dim = spec.hidden / spec.heads;
  } else {
    config.refuse("head_dim",
                  fmt::format("missing, and num_attention_heads {} does not divide hidden_size {}",
                              spec.heads, spec.hidden),
                  "head_dim");
  }
  check_rotary_dim(config, "head_dim", spec.head_dim);
  spec.rope = read_rope(config, spec.head_dim, default_theta, spec.max_context);
}

void read_latent_attention(const ConfigFields& config, ModelSpec& spec) {
  spec.attention = AttentionKind::mla;
  // null means that queries are projected directly; a missing field could mean either.
  if (!config.mentions("q_lora_rank"))
    config.refuse("q_lora_rank", "missing", "an integer, or null for uncompressed queries");
  spec.q_lora_rank = config.has("q_lora_rank") ? config.integer("q_lora_rank", 1, kLargestWidth) : 0;
  spec.kv_lora_rank = config.integer("kv_lora_rank", 1, kLargestWidth);
  spec.qk_nope_dim = config.integer("qk_nope_head_dim", 1, kLargestWidth);
  spec.qk_rope_dim = config.integer("qk_rope_head_dim", 1, kLargestWidth);
  spec.v_head_dim = config.integer("v_head_dim", 1, kLargestWidth);
  spec.attention_bias = config.flag_or("attention_bias", false);
  config.accept_only("num_key_value_heads", spec.heads, "latent attention has as many key as query heads");
  config.accept_only("qk_head_dim", spec.qk_nope_dim + spec.qk_rope_dim,
                     "the sum of qk_nope_head_dim and qk_rope_head_dim");
  check_rotary_dim(config, "qk_rope_head_dim", spec.qk_rope_dim);
  spec.rope = read_rope(config, spec.qk_rope_dim, 10000.0, spec.max_context);
  spec.rope.interleaved = config.flag_or("rope_interleave", true);
}

void read_experts(const ConfigFields& config, const std::string& experts_field, int fewest, ModelSpec& spec) {
  spec.experts = config.integer(experts_field, fewest, kMostExperts);
  spec.experts_per_token = config.integer("num_experts_per_tok", 1, kMostExperts);
  if (spec.experts_per_token > spec.experts) {
    config.refuse("num_experts_per_tok",
                  fmt::format("{}, but {} is {}", spec.experts_per_token, experts_field, spec.experts),
                  fmt::format("1 to {}", spec.experts));
  }
}

void read_expert_groups(const ConfigFields& config, ModelSpec& spec) {
  spec.expert_groups = config.integer("n_group", 1, kMostExperts);
  spec.kept_groups = config.integer("topk_group", 1, kMostExperts);
  if (spec.experts % spec.expert_groups != 0) {
    config.refuse("n_group",
                  fmt::format("{} does not divide n_routed_experts {}", spec.expert_groups, spec.experts),
                  "a divisor of n_routed_experts");
  }
  const int experts_per_group = spec.experts / spec.expert_groups;
  if (experts_per_group < 2) {
    config.refuse("n_group", fmt::format("{} groups of one expert", spec.expert_groups),
                  "groups of at least 2 experts: a group is scored by its best two");
  }
  if (spec.kept_groups > spec.expert_groups) {
    config.refuse("topk_group", fmt::format("{}, but n_group is {}", spec.kept_groups, spec.expert_groups),
                  fmt::format("1 to {}", spec.expert_groups));
  }
  if (spec.experts_per_token > spec.kept_groups * experts_per_group) {
    config.refuse("num_experts_per_tok",
                  fmt::format("{}, but topk_group {} groups hold {} experts", spec.experts_per_token,
                              spec.kept_groups, spec.kept_groups * experts_per_group),
                  fmt::format("1 to {}", spec.kept_groups * experts_per_group));
  }
}

void read_deepseek_routing(const ConfigFields& config, const DeepseekRouting& routing, ModelSpec& spec) {
  spec.expert_inner = config.integer("moe_intermediate_size", 1, kLargestWidth);
  spec.shared_experts =
      config.integer_or("n_shared_experts", routing.n_shared_experts, routing.n_shared_experts, 1024);
  config.accept_only("scoring_func", routing.scoring_func, "");
  config.accept_only("topk_method", routing.topk_method, "");
  spec.routing = routing.rule;
  spec.normalize_top_k = config.flag_or("norm_topk_prob", routing.norm_topk_prob);
  spec.routed_scaling_factor = config.number("routed_scaling_factor", 0.0, 1e6);
}

// Layers after num_hidden_layers (num_nextn_predict_layers, multi-token prediction) are not part of decoding.
void read_leading_dense_layers(const ConfigFields& config, ModelSpec& spec) {
  const std::string field = "first_k_dense_replace";
  config.accept_only("moe_layer_freq", 1, "");
  const int dense_layers = config.integer(field, 0, kMostLayers);
  for (int layer = 0; layer < spec.layers; ++layer) spec.moe_layers.push_back(layer >= dense_layers);
  check_some_layer_routes(config, field, spec);
  read_dense_inner(config, spec);
}

}  // namespace config_parts

namespace {

void read_deepseek_v3(const ConfigFields& config, ModelSpec& spec) {
  read_latent_attention(config, spec);
  read_experts(config, config.spelling({"n_routed_experts", "num_local_experts"}), 2, spec);
  read_expert_groups(config, spec);
  read_deepseek_routing(config, {"sigmoid", "noaux_tc", RoutingRule::grouped_sigmoid_bias, true, 1}, spec);
  read_leading_dense_layers(config, spec);
}

void read_mixtral(const ConfigFields& config, ModelSpec& spec) {
  read_grouped_query_attention(config, 1e6, spec);
  spec.sliding_window = config.integer_or("sliding_window", 0, 1, kLongestContext);
  read_experts(config, config.spelling({"num_local_experts", "num_experts"}), 1, spec);
  spec.expert_inner = config.integer("intermediate_size", 1, kLargestWidth);
  spec.routing = RoutingRule::softmax_top_k;
  spec.normalize_top_k = true;
  spec.moe_layers.assign(static_cast<std::size_t>(spec.layers), true);
}

void read_qwen3_moe(const ConfigFields& config, ModelSpec& spec) {
  read_grouped_query_attention(config, 10000.0, spec);
  spec.qk_norm = true;
  spec.attention_bias = config.flag_or("attention_bias", false);
  if (config.flag_or("use_sliding_window", false)) {
    spec.sliding_window = config.integer("sliding_window", 1, kLongestContext);
  }
  read_experts(config, config.spelling({"num_experts", "num_local_experts"}), 1, spec);
  spec.expert_inner = config.integer("moe_intermediate_size", 1, kLargestWidth);
  spec.routing = RoutingRule::softmax_top_k;
  spec.normalize_top_k = config.flag_or("norm_topk_prob", false);
  const int sparse_step = config.integer_or("decoder_sparse_step", 1, 1, kMostLayers);
  for (int layer = 0; layer < spec.layers; ++layer) spec.moe_layers.push_back((layer + 1) % sparse_step == 0);
  if (config.has("mlp_only_layers")) {
    const nlohmann::json& list = config.at("mlp_only_layers");
    const std::string accepted = fmt::format("an array of layers, 0 to {}", spec.layers - 1);
    if (!list.is_array()) config.refuse("mlp_only_layers", shown(list), accepted);
    for (const auto& layer : list) {
      if (!layer.is_number_unsigned() ||
          layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(spec.layers)) {
        config.refuse("mlp_only_layers", shown(layer), accepted);
      }
      spec.moe_layers[layer.get<std::size_t>()] = false;
    }
  }
  check_some_layer_routes(config, config.has("mlp_only_layers") ? "mlp_only_layers" : "decoder_sparse_step",
                          spec);
  read_dense_inner(config, spec);
}

std::string read_architecture(const ConfigFields& config) {
  if (!config.has("architectures")) config.refuse("architectures", "missing", kArchitectures);
  const nlohmann::json& list = config.at("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string()) {
    config.refuse("architectures", shown(list), fmt::format("an array with one of {}", kArchitectures));
  }
  return list[0].get<std::string>();
}

}  // namespace

ModelSpec parse_model_config(const std::string& text, const std::string& where) {
  const nlohmann::json root = parse_strict_json(text, where);
  const ConfigFields config(root, where);
  ModelSpec spec;
  spec.architecture = read_architecture(config);
  const bool known = spec.architecture == "DeepseekV3ForCausalLM" ||
                     spec.architecture == "MixtralForCausalLM" || spec.architecture == "Qwen3MoeForCausalLM";
  if (!known) config.refuse("architectures", shown(spec.architecture), kArchitectures);
  read_shared_fields(config, spec);
  if (spec.architecture == "DeepseekV3ForCausalLM") read_deepseek_v3(config, spec);
  if (spec.architecture == "MixtralForCausalLM") read_mixtral(config, spec);
  if (spec.architecture == "Qwen3MoeForCausalLM") read_qwen3_moe(config, spec);
  return spec;
}

}  // namespace moetune
