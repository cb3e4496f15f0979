// config.json: both spellings, defaults, and a catalogue of what is refused and how the message reads.
#include "engine/config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

Json config_of(const std::string& golden) {
  return Json::parse(read_bytes(source_dir() + "/tests/golden/" + golden + "/config.json"));
}

ModelSpec parse(const Json& config) { return parse_model_config(config.dump(), "m/config.json"); }

// The message after one field was given another value.
std::string refusal(const std::string& golden, const std::string& field, const Json& value) {
  Json config = config_of(golden);
  config[field] = value;
  return message_of<InputError>([&] { parse(config); });
}

std::string refusal_without(const std::string& golden, const std::string& field) {
  Json config = config_of(golden);
  EXPECT_EQ(config.erase(field), 1U) << field;
  return message_of<InputError>([&] { parse(config); });
}

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

TEST(Config, RefusesUnknownArchitectures) {
  EXPECT_TRUE(has_text(
      refusal("mixtral", "architectures", {"LlamaForCausalLM"}),
      R"(m/config.json: architectures: "LlamaForCausalLM" (accepted: DeepseekV3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM))"));
  EXPECT_TRUE(has_text(refusal("mixtral", "architectures", Json::array()), "architectures: []"));
  EXPECT_TRUE(has_text(refusal("mixtral", "architectures", "MixtralForCausalLM"),
                       "accepted: an array with one of DeepseekV3ForCausalLM"));
  EXPECT_TRUE(has_text(refusal_without("mixtral", "architectures"), "architectures: missing"));
}

TEST(Config, RefusesMissingFields) {
  const struct {
    const char* golden;
    std::vector<const char*> fields;
  } required[] = {
      {"deepseek_v3_yarn",
       {"num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings", "rms_norm_eps",
        "num_attention_heads", "intermediate_size", "moe_intermediate_size", "n_routed_experts",
        "num_experts_per_tok", "n_group", "topk_group", "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
        "qk_rope_head_dim", "v_head_dim", "first_k_dense_replace", "routed_scaling_factor"}},
      {"mixtral", {"hidden_size", "intermediate_size", "num_local_experts", "num_experts_per_tok"}},
      {"qwen3_moe_shards",
       {"intermediate_size", "moe_intermediate_size", "num_local_experts", "num_experts_per_tok"}},
  };
  for (const auto& [golden, fields] : required) {
    for (const char* field : fields) {
      const std::string message = refusal_without(golden, field);
      const std::string named = std::string(field) == "num_local_experts" && std::string(golden) != "mixtral"
                                    ? "num_experts"
                                    : field;
      EXPECT_TRUE(has_text(message, "m/config.json: " + named + ": missing (accepted: ")) << golden;
    }
  }
}

TEST(Config, RefusesWrongTypesAndRanges) {
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_size", "60"),
                       R"(m/config.json: hidden_size: "60" (accepted: an integer from 1 to 1048576))"));
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_size", 60.0), "hidden_size: 60.0 (accepted: an integer"));
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_size", 0), "hidden_size: 0"));
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_size", -60), "hidden_size: -60"));
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_size", 18446744073709551615U),
                       "hidden_size: 18446744073709551615"));
  EXPECT_TRUE(has_text(refusal("mixtral", "num_hidden_layers", 4294967297), "num_hidden_layers: 4294967297"));
  EXPECT_TRUE(
      has_text(refusal("mixtral", "rms_norm_eps", "tiny"), "rms_norm_eps: \"tiny\" (accepted: a number"));
  EXPECT_TRUE(has_text(refusal("mixtral", "rms_norm_eps", -1e-5), "rms_norm_eps: -1e-05"));
  EXPECT_TRUE(has_text(refusal("mixtral", "tie_word_embeddings", 1),
                       "tie_word_embeddings: 1 (accepted: true or false)"));
  EXPECT_TRUE(has_text(refusal("mixtral", "dtype", "float64"),
                       R"(dtype: "float64" (accepted: bfloat16, float16, float32))"));
  EXPECT_TRUE(has_text(refusal("mixtral", "hidden_act", "gelu"), R"(hidden_act: "gelu" (accepted: "silu"))"));
  EXPECT_TRUE(has_text(refusal("qwen3_moe_shards", "mlp_only_layers", 0),
                       "mlp_only_layers: 0 (accepted: an array of layers, 0 to 2)"));
  EXPECT_TRUE(has_text(refusal("qwen3_moe_shards", "mlp_only_layers", {3}), "mlp_only_layers: 3"));
  EXPECT_TRUE(has_text(refusal("qwen3_moe_shards", "mlp_only_layers", {-1}), "mlp_only_layers: -1"));
}

TEST(Config, RefusesContradictionsBetweenFields) {
  EXPECT_TRUE(has_text(refusal("mixtral", "num_experts_per_tok", 6),
                       "num_experts_per_tok: 6, but num_local_experts is 5 (accepted: 1 to 5)"));
  EXPECT_TRUE(has_text(refusal("mixtral", "num_key_value_heads", 2),
                       "num_key_value_heads: 2 does not divide num_attention_heads 5"));
  EXPECT_TRUE(has_text(refusal("mixtral", "num_attention_heads", 7),
                       "head_dim: missing, and num_attention_heads 7 does not divide hidden_size 60"));
  EXPECT_TRUE(has_text(refusal("mixtral", "head_dim", 13), "head_dim: 13 is odd"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "qk_rope_head_dim", 5), "qk_rope_head_dim: 5 is odd"));
  EXPECT_TRUE(
      has_text(refusal("deepseek_v3_yarn", "n_group", 4), "n_group: 4 does not divide n_routed_experts 15"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "n_group", 15), "groups of one expert"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "topk_group", 4), "topk_group: 4, but n_group is 3"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "num_experts_per_tok", 11),
                       "num_experts_per_tok: 11, but topk_group 2 groups hold 10 experts"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "num_key_value_heads", 1),
                       "num_key_value_heads: 1 (accepted: 3; latent attention"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "qk_head_dim", 15), "qk_head_dim: 15 (accepted: 16"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "first_k_dense_replace", 3),
                       "first_k_dense_replace: 3 leaves no layer of 3 with experts"));
  EXPECT_TRUE(has_text(refusal("qwen3_moe_shards", "mlp_only_layers", {0, 1, 2}),
                       "mlp_only_layers: [0,1,2] leaves no layer"));
}

TEST(Config, RefusesRoutingItDoesNotRun) {
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "scoring_func", "softmax"),
                       R"(scoring_func: "softmax" (accepted: "sigmoid"))"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "topk_method", "greedy"),
                       R"(topk_method: "greedy" (accepted: "noaux_tc"))"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "moe_layer_freq", 2), "moe_layer_freq: 2 (accepted: 1)"));
}

TEST(Config, RefusesQuantizedCheckpoints) {
  EXPECT_TRUE(has_text(
      refusal("mixtral", "quantization_config", {{"quant_method", "fp8"}}),
      R"(m/config.json: quantization_config: {"quant_method":"fp8"} (accepted: checkpoints in f32, f16 or bf16)"));
}

TEST(Config, RefusesOtherRotaryEmbeddings) {
  const auto with_rope = [](const Json& rope) { return refusal("deepseek_v3_yarn", "rope_scaling", rope); };
  EXPECT_TRUE(has_text(with_rope({{"type", "linear"}, {"factor", 2.0}}),
                       R"(m/config.json: rope_scaling: type: "linear" (accepted: default, yarn))"));
  EXPECT_TRUE(has_text(with_rope({{"rope_type", "llama3"}}), R"(rope_scaling: rope_type: "llama3")"));
  EXPECT_TRUE(has_text(with_rope({{"rope_type", "yarn"}, {"type", "default"}}),
                       R"(type: "default", but rope_type is "yarn")"));
  EXPECT_TRUE(has_text(with_rope({{"type", "yarn"}, {"factor", 0.5}}), "rope_scaling: factor: 0.5"));
  EXPECT_TRUE(has_text(with_rope({{"type", "yarn"}, {"factor", 4}, {"beta_fast", 0.5}}),
                       "beta_fast: 0.5, below beta_slow 1"));
  EXPECT_TRUE(has_text(with_rope({{"type", "yarn"}, {"factor", 4}, {"truncate", "no"}}),
                       "truncate: \"no\" (accepted: true or false)"));
  EXPECT_TRUE(has_text(with_rope("yarn"), R"(rope_scaling: is "yarn" (accepted: a JSON object))"));
  EXPECT_TRUE(has_text(refusal("mixtral", "partial_rotary_factor", 0.5),
                       "partial_rotary_factor: 0.5 (accepted: 1.0 or absent)"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "rope_theta", 0), "rope_theta: 0"));
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

TEST(Config, RefusesWhatIsNoJsonObject) {
  const auto message = [](const std::string& text) {
    return message_of<InputError>([&] { parse_model_config(text, "m/config.json"); });
  };
  EXPECT_TRUE(has_text(message(""), "m/config.json: not valid JSON"));
  EXPECT_TRUE(has_text(message("{\"hidden_size\": 60"), "not valid JSON"));
  EXPECT_TRUE(has_text(message("[]"), "m/config.json: is [] (accepted: a JSON object)"));
  EXPECT_TRUE(has_text(message(R"({"hidden_size": NaN})"), "not valid JSON"));
  EXPECT_TRUE(has_text(message(R"({"hidden_size": 1e999})"), "not valid JSON"));
  EXPECT_TRUE(
      has_text(message(R"({"hidden_size": 60, "hidden_size": 64})"), R"(key "hidden_size" stands twice)"));
}

}  // namespace
}  // namespace moetune
