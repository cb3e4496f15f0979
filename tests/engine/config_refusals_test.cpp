// config.json: what is refused and how the message reads.
#include "engine/config.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/engine/support/golden_config.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

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

TEST(ConfigRefusals, RefusesUnknownArchitectures) {
  EXPECT_TRUE(has_text(
      refusal("mixtral", "architectures", {"LlamaForCausalLM"}),
      R"(m/config.json: architectures: "LlamaForCausalLM" (accepted: DeepseekV3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM))"));
  EXPECT_TRUE(has_text(refusal("mixtral", "architectures", Json::array()), "architectures: []"));
  EXPECT_TRUE(has_text(refusal("mixtral", "architectures", "MixtralForCausalLM"),
                       "accepted: an array with one of DeepseekV3ForCausalLM"));
  EXPECT_TRUE(has_text(refusal_without("mixtral", "architectures"), "architectures: missing"));
}

TEST(ConfigRefusals, RefusesMissingFields) {
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

TEST(ConfigRefusals, RefusesWrongTypesAndRanges) {
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

TEST(ConfigRefusals, RefusesContradictionsBetweenFields) {
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

TEST(ConfigRefusals, RefusesRoutingItDoesNotRun) {
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "scoring_func", "softmax"),
                       R"(scoring_func: "softmax" (accepted: "sigmoid"))"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "topk_method", "greedy"),
                       R"(topk_method: "greedy" (accepted: "noaux_tc"))"));
  EXPECT_TRUE(has_text(refusal("deepseek_v3_yarn", "moe_layer_freq", 2), "moe_layer_freq: 2 (accepted: 1)"));
}

TEST(ConfigRefusals, RefusesQuantizedCheckpoints) {
  EXPECT_TRUE(has_text(
      refusal("mixtral", "quantization_config", {{"quant_method", "fp8"}}),
      R"(m/config.json: quantization_config: {"quant_method":"fp8"} (accepted: checkpoints in f32, f16 or bf16)"));
}

TEST(ConfigRefusals, RefusesOtherRotaryEmbeddings) {
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

TEST(ConfigRefusals, RefusesWhatIsNoJsonObject) {
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
