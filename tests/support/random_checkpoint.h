// Small random checkpoints with shapes a test chooses, written to a folder of their own. Start at
// write_random_checkpoint().
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/config.h"
#include "engine/tensor_names.h"
#include "kernels/number_convert.h"
#include "tests/support/safetensors_bytes.h"

namespace moetune::testing {

// Heads, widths and experts that 2 and 4 ranks can share; inner widths hold whole int4_g32 groups for 2
// ranks.
inline nlohmann::json splittable_mla() {
  return {{"architectures", {"DeepseekV3ForCausalLM"}},
          {"dtype", "bfloat16"},
          {"hidden_act", "silu"},
          {"vocab_size", 99},
          {"hidden_size", 72},
          {"intermediate_size", 128},
          {"moe_intermediate_size", 64},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 4},
          {"kv_lora_rank", 24},
          {"q_lora_rank", 40},
          {"qk_nope_head_dim", 18},
          {"qk_rope_head_dim", 8},
          {"v_head_dim", 20},
          {"n_routed_experts", 12},
          {"n_shared_experts", 2},
          {"num_experts_per_tok", 4},
          {"n_group", 3},
          {"topk_group", 2},
          {"first_k_dense_replace", 1},
          {"routed_scaling_factor", 2.5},
          {"norm_topk_prob", true},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 96},
          {"rope_theta", 10000.0},
          {"rope_interleave", true},
          {"attention_bias", true},
          {"tie_word_embeddings", true}};
}

// Two key/value heads: four ranks replicate them in pairs.
inline nlohmann::json splittable_gqa() {
  return {{"architectures", {"Qwen3MoeForCausalLM"}},
          {"dtype", "float32"},
          {"hidden_act", "silu"},
          {"vocab_size", 103},
          {"hidden_size", 60},
          {"intermediate_size", 96},
          {"moe_intermediate_size", 128},
          {"num_hidden_layers", 4},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"num_experts", 10},
          {"num_experts_per_tok", 3},
          {"norm_topk_prob", true},
          {"decoder_sparse_step", 1},
          {"mlp_only_layers", {1}},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", 96},
          {"rope_theta", 10000.0},
          {"attention_bias", true},
          {"tie_word_embeddings", false},
          {"sliding_window", nullptr},
          {"use_sliding_window", false}};
}

// Every tensor the configuration needs, of one type, with weights that keep activations of order one. change:
// the last word about any weight, by tensor name and index.
inline void write_random_checkpoint(
    const std::string& directory, const nlohmann::json& config, std::uint64_t seed,
    const std::function<float(const std::string&, std::size_t, float)>& change = {}) {
  const ModelSpec spec = parse_model_config(config.dump(), directory);
  const std::string dtype = config.at("dtype");
  std::map<std::string, std::vector<std::int64_t>> shapes;
  const auto want = [&](const NamedTensor& tensor) {
    if (tensor.exists()) shapes[tensor.name] = tensor.shape;
  };
  const ModelTensors model = model_tensors(spec);
  for (const NamedTensor* tensor : {&model.embedding, &model.final_norm, &model.head}) want(*tensor);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const LayerTensors t = layer_tensors(spec, layer);
    for (const NamedTensor* tensor : {&t.input_norm,  &t.post_attention_norm,
                                      &t.q,           &t.k,
                                      &t.v,           &t.q_bias,
                                      &t.k_bias,      &t.v_bias,
                                      &t.q_norm,      &t.k_norm,
                                      &t.q_a,         &t.q_a_bias,
                                      &t.q_a_norm,    &t.q_b,
                                      &t.kv_a,        &t.kv_a_bias,
                                      &t.kv_a_norm,   &t.kv_b,
                                      &t.o,           &t.o_bias,
                                      &t.dense_gate,  &t.dense_up,
                                      &t.dense_down,  &t.router,
                                      &t.router_bias, &t.shared_gate,
                                      &t.shared_up,   &t.shared_down})
      want(*tensor);
    for (int expert = 0; spec.moe_layers[static_cast<std::size_t>(layer)] && expert < spec.experts;
         ++expert) {
      const ExpertTensors e = expert_tensors(spec, layer, expert);
      for (const NamedTensor* tensor : {&e.gate, &e.up, &e.down}) want(*tensor);
    }
  }

  std::mt19937_64 random(seed);
  nlohmann::json header;
  std::string data;
  for (const auto& [name, shape] : shapes) {
    const bool is_norm = name.ends_with("norm.weight");
    std::normal_distribution<float> noise(
        is_norm ? 1.0F : 0.0F, shape.size() == 1 ? 0.2F : 1.5F / std::sqrt(static_cast<float>(shape[1])));
    std::size_t elements = 1;
    for (const std::int64_t length : shape) elements *= static_cast<std::size_t>(length);
    const std::size_t begin = data.size();
    for (std::size_t i = 0; i < elements; ++i) {
      const float drawn = noise(random);
      const float value = change ? change(name, i, drawn) : drawn;
      const std::uint16_t narrow = dtype == "bfloat16" ? bf16_from_f32(value) : f16_from_f32(value);
      if (dtype == "float32")
        data.append(reinterpret_cast<const char*>(&value), sizeof value);
      else
        data.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
    }
    header[name] = {{"dtype", dtype == "float32"    ? "F32"
                              : dtype == "bfloat16" ? "BF16"
                                                    : "F16"},
                    {"shape", shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  write_bytes(directory + "/config.json", config.dump(2));
  write_bytes(directory + "/model.safetensors", safetensors_bytes(header.dump(), data));
}

}  // namespace moetune::testing
