// config.json: both spellings, defaults, and configurations as published.
#include "engine/config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/engine/support/golden_config.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

TEST(Config, ReadsDeepseekV3InTheSpellingOfTransformers4) {
  const ModelSpec spec = parse(config_of("deepseek_v3_yarn"));
  EXPECT_EQ(spec.architecture, "DeepseekV3ForCausalLM");
  EXPECT_EQ(spec.checkpoint_type, NumberType::bf16);
  EXPECT_EQ(spec.attention, AttentionKind::mla);
  EXPECT_EQ(spec.q_lora_rank, 20);
  EXPECT_EQ(spec.kv_lora_rank, 12);
  EXPECT_EQ(spec.qk_nope_dim, 10);
  EXPECT_EQ(spec.qk_rope_dim, 6);
  EXPECT_EQ(spec.v_head_dim, 14);
  EXPECT_EQ(spec.moe_layers, (std::vector<bool>{false, true, true}));
  EXPECT_EQ(spec.dense_inner, 60);
  EXPECT_EQ(spec.expert_inner, 12);
  EXPECT_EQ(spec.experts, 15);
  EXPECT_EQ(spec.experts_per_token, 4);
  EXPECT_EQ(spec.shared_experts, 2);
  EXPECT_EQ(spec.expert_groups, 3);
  EXPECT_EQ(spec.kept_groups, 2);
  EXPECT_EQ(spec.routing, RoutingRule::grouped_sigmoid_bias);
  EXPECT_DOUBLE_EQ(spec.routed_scaling_factor, 2.5);
  EXPECT_DOUBLE_EQ(spec.rms_eps, 1e-5);
  EXPECT_TRUE(spec.rope.interleaved);
  EXPECT_EQ(spec.rope.dim, 6);
  ASSERT_TRUE(spec.rope.yarn.has_value());
  EXPECT_DOUBLE_EQ(spec.rope.yarn->factor, 4.0);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->original_context, 32.0);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->beta_fast, 8.0);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->mscale, 1.0);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->mscale_all_dim, 0.7);
}

TEST(Config, ReadsDeepseekV3InTheSpellingOfTransformers5) {
  const ModelSpec spec = parse(config_of("deepseek_v3_direct_q"));
  EXPECT_EQ(spec.checkpoint_type, NumberType::f32);
  EXPECT_EQ(spec.q_lora_rank, 0);
  EXPECT_TRUE(spec.attention_bias);
  EXPECT_TRUE(spec.tied_embeddings);
  EXPECT_FALSE(spec.normalize_top_k);
  EXPECT_FALSE(spec.rope.interleaved);
  EXPECT_FALSE(spec.rope.yarn.has_value());
  EXPECT_DOUBLE_EQ(spec.rope.theta, 10000.0);
}

TEST(Config, ReadsMixtral) {
  const ModelSpec spec = parse(config_of("mixtral"));
  EXPECT_EQ(spec.attention, AttentionKind::gqa);
  EXPECT_EQ(spec.head_dim, 12);  // hidden_size / heads: head_dim is null
  EXPECT_EQ(spec.kv_heads, 1);
  EXPECT_EQ(spec.sliding_window, 0);
  EXPECT_FALSE(spec.qk_norm);
  EXPECT_TRUE(spec.normalize_top_k);
  EXPECT_EQ(spec.expert_inner, 36);
  EXPECT_DOUBLE_EQ(spec.rope.theta, 1e6);
  EXPECT_EQ(parse(config_of("mixtral_window_fused")).sliding_window, 9);
}

TEST(Config, ReadsQwen3Moe) {
  const ModelSpec shards = parse(config_of("qwen3_moe_shards"));
  EXPECT_TRUE(shards.qk_norm);
  EXPECT_TRUE(shards.normalize_top_k);
  EXPECT_EQ(shards.moe_layers, (std::vector<bool>{false, true, true}));  // mlp_only_layers [0]
  EXPECT_EQ(shards.experts, 13);                                         // num_local_experts
  const ModelSpec yarn = parse(config_of("qwen3_moe_yarn"));
  EXPECT_FALSE(yarn.normalize_top_k);
  EXPECT_EQ(yarn.moe_layers, (std::vector<bool>{false, true, false, true}));  // decoder_sparse_step 2
  EXPECT_TRUE(yarn.attention_bias);
  EXPECT_DOUBLE_EQ(yarn.rope.theta, 5000.0);
}

TEST(Config, ASlidingWindowOfQwen3IsUsedOnlyWhenSwitchedOn) {
  Json config = config_of("qwen3_moe_shards");
  config["sliding_window"] = 7;
  EXPECT_EQ(parse(config).sliding_window, 0);
  config["use_sliding_window"] = true;
  EXPECT_EQ(parse(config).sliding_window, 7);
}

TEST(Config, AcceptsEitherSpellingOfAField) {
  Json config = config_of("qwen3_moe_shards");
  config["num_experts"] = config["num_local_experts"];
  EXPECT_EQ(parse(config).experts, 13);
  config.erase("num_local_experts");
  EXPECT_EQ(parse(config).experts, 13);
  config["num_local_experts"] = 12;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { parse(config); }),
                       "m/config.json: num_local_experts: 12, but num_experts is 13"));
}

TEST(Config, TakesTheDefaultsOfTransformers) {
  Json config = config_of("qwen3_moe_shards");
  for (const char* field : {"rope_parameters", "dtype", "attention_bias", "decoder_sparse_step",
                            "norm_topk_prob", "tie_word_embeddings"}) {
    config.erase(field);
  }
  const ModelSpec spec = parse(config);
  EXPECT_DOUBLE_EQ(spec.rope.theta, 10000.0);
  EXPECT_FALSE(spec.normalize_top_k);
  EXPECT_FALSE(spec.tied_embeddings);
}

// The published files, less fields that say nothing about the computation.
TEST(Config, ReadsQwen3_30B_A3BAsPublished) {
  const ModelSpec spec = parse(Json::parse(
      R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1,
      "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960,
      "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
      "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
      "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 151936})"));
  EXPECT_EQ(spec.moe_layer_count(), 48);
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_DOUBLE_EQ(spec.rope.theta, 1e6);
  EXPECT_EQ(spec.expert_parameters(), 3 * 2048 * 768);
}

TEST(Config, ReadsMixtral8x7BAsPublished) {
  const ModelSpec spec = parse(
      Json::parse(R"({"architectures": ["MixtralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
      "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32,
      "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "rms_norm_eps": 1e-05,
      "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000})"));
  EXPECT_EQ(spec.head_dim, 128);
  EXPECT_EQ(spec.expert_inner, 14336);
  EXPECT_EQ(spec.moe_layer_count(), 32);
}

TEST(Config, ReadsDeepseekV3AsPublishedOnceItIsNotQuantized) {
  Json config =
      Json::parse(R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "ep_size": 1,
      "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
      "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
      "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
      "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8"},
      "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 4096, "type": "yarn"}, "rope_theta": 10000, "routed_scaling_factor": 2.5,
      "scoring_func": "sigmoid", "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
      "v_head_dim": 128, "vocab_size": 129280})");
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { parse(config); }), "m/config.json: quantization_config: "));
  config.erase("quantization_config");
  const ModelSpec spec = parse(config);
  EXPECT_EQ(spec.layers, 61);
  EXPECT_EQ(spec.moe_layer_count(), 58);
  EXPECT_EQ(spec.rope.yarn->factor, 40.0);
  EXPECT_TRUE(spec.rope.interleaved);  // not in the file: the default of transformers
}

TEST(Config, YarnFillsInWhatTransformersFillsIn) {
  Json config = config_of("deepseek_v3_yarn");
  config["rope_scaling"] = {{"type", "yarn"}, {"original_max_position_embeddings", 32}};
  const ModelSpec spec = parse(config);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->factor, 4.0);  // max_position_embeddings 128 / 32
  EXPECT_DOUBLE_EQ(spec.rope.yarn->beta_fast, 32.0);
  EXPECT_DOUBLE_EQ(spec.rope.yarn->mscale, 0.0);
  EXPECT_FALSE(spec.rope.yarn->attention_factor.has_value());
}

}  // namespace
}  // namespace moetune
