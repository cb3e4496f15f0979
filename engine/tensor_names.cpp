// The names follow the parameters of transformers' DeepseekV3ForCausalLM, MixtralForCausalLM and
// Qwen3MoeForCausalLM.
#include "engine/tensor_names.h"

#include <cassert>

#include <fmt/format.h>

namespace moetune {
namespace {

bool is_mixtral(const ModelSpec& spec) { return spec.architecture == "MixtralForCausalLM"; }

std::string layer_prefix(int layer) { return fmt::format("model.layers.{}.", layer); }

// Mixtral's hub checkpoints call the routed half block_sparse_moe, the others mlp.
std::string moe_prefix(const ModelSpec& spec, int layer) {
  return layer_prefix(layer) + (is_mixtral(spec) ? "block_sparse_moe." : "mlp.");
}

void add_gqa(const ModelSpec& spec, const std::string& attention, LayerTensors& tensors) {
  const std::int64_t q_width = std::int64_t{spec.heads} * spec.head_dim;
  const std::int64_t kv_width = std::int64_t{spec.kv_heads} * spec.head_dim;
  tensors.q = {attention + "q_proj.weight", {q_width, spec.hidden}};
  tensors.k = {attention + "k_proj.weight", {kv_width, spec.hidden}};
  tensors.v = {attention + "v_proj.weight", {kv_width, spec.hidden}};
  tensors.o = {attention + "o_proj.weight", {spec.hidden, q_width}};
  if (spec.attention_bias) {
    tensors.q_bias = {attention + "q_proj.bias", {q_width}};
    tensors.k_bias = {attention + "k_proj.bias", {kv_width}};
    tensors.v_bias = {attention + "v_proj.bias", {kv_width}};
  }
  if (spec.qk_norm) {
    tensors.q_norm = {attention + "q_norm.weight", {spec.head_dim}};
    tensors.k_norm = {attention + "k_norm.weight", {spec.head_dim}};
  }
}

void add_mla(const ModelSpec& spec, const std::string& attention, LayerTensors& tensors) {
  const std::int64_t heads = spec.heads;
  const std::int64_t q_width = heads * (spec.qk_nope_dim + spec.qk_rope_dim);
  const std::int64_t latent_width = std::int64_t{spec.kv_lora_rank} + spec.qk_rope_dim;
  if (spec.q_lora_rank > 0) {
    tensors.q_a = {attention + "q_a_proj.weight", {spec.q_lora_rank, spec.hidden}};
    tensors.q_a_norm = {attention + "q_a_layernorm.weight", {spec.q_lora_rank}};
    tensors.q_b = {attention + "q_b_proj.weight", {q_width, spec.q_lora_rank}};
    if (spec.attention_bias) tensors.q_a_bias = {attention + "q_a_proj.bias", {spec.q_lora_rank}};
  } else {
    tensors.q = {attention + "q_proj.weight", {q_width, spec.hidden}};
  }
  tensors.kv_a = {attention + "kv_a_proj_with_mqa.weight", {latent_width, spec.hidden}};
  if (spec.attention_bias) tensors.kv_a_bias = {attention + "kv_a_proj_with_mqa.bias", {latent_width}};
  tensors.kv_a_norm = {attention + "kv_a_layernorm.weight", {spec.kv_lora_rank}};
  tensors.kv_b = {attention + "kv_b_proj.weight",
                  {heads * (spec.qk_nope_dim + spec.v_head_dim), spec.kv_lora_rank}};
  tensors.o = {attention + "o_proj.weight", {spec.hidden, heads * spec.v_head_dim}};
}

void add_moe(const ModelSpec& spec, const std::string& moe, LayerTensors& tensors) {
  tensors.router = {moe + "gate.weight", {spec.experts, spec.hidden}};
  if (spec.routing != RoutingRule::softmax_top_k) {
    tensors.router_bias = {moe + "gate.e_score_correction_bias", {spec.experts}};
  }
  if (spec.shared_experts > 0) {
    const std::int64_t inner = std::int64_t{spec.shared_experts} * spec.expert_inner;
    tensors.shared_gate = {moe + "shared_experts.gate_proj.weight", {inner, spec.hidden}};
    tensors.shared_up = {moe + "shared_experts.up_proj.weight", {inner, spec.hidden}};
    tensors.shared_down = {moe + "shared_experts.down_proj.weight", {spec.hidden, inner}};
  }
}

}  // namespace

ModelTensors model_tensors(const ModelSpec& spec) {
  ModelTensors tensors;
  tensors.embedding = {"model.embed_tokens.weight", {spec.vocabulary, spec.hidden}};
  tensors.final_norm = {"model.norm.weight", {spec.hidden}};
  tensors.head = {spec.tied_embeddings ? tensors.embedding.name : "lm_head.weight",
                  {spec.vocabulary, spec.hidden}};
  return tensors;
}

LayerTensors layer_tensors(const ModelSpec& spec, int layer) {
  assert(layer >= 0 && layer < spec.layers);
  const std::string prefix = layer_prefix(layer);
  const std::string attention = prefix + "self_attn.";
  LayerTensors tensors;
  tensors.input_norm = {prefix + "input_layernorm.weight", {spec.hidden}};
  tensors.post_attention_norm = {prefix + "post_attention_layernorm.weight", {spec.hidden}};
  if (spec.attention == AttentionKind::mla) {
    add_mla(spec, attention, tensors);
  } else {
    add_gqa(spec, attention, tensors);
  }
  if (spec.attention_bias) tensors.o_bias = {attention + "o_proj.bias", {spec.hidden}};
  if (spec.moe_layers[static_cast<std::size_t>(layer)]) {
    add_moe(spec, moe_prefix(spec, layer), tensors);
  } else {
    tensors.dense_gate = {prefix + "mlp.gate_proj.weight", {spec.dense_inner, spec.hidden}};
    tensors.dense_up = {prefix + "mlp.up_proj.weight", {spec.dense_inner, spec.hidden}};
    tensors.dense_down = {prefix + "mlp.down_proj.weight", {spec.hidden, spec.dense_inner}};
  }
  return tensors;
}

ExpertTensors expert_tensors(const ModelSpec& spec, int layer, int expert) {
  const std::string prefix = fmt::format("{}experts.{}.", moe_prefix(spec, layer), expert);
  const bool mixtral = is_mixtral(spec);
  ExpertTensors tensors;
  tensors.gate = {prefix + (mixtral ? "w1.weight" : "gate_proj.weight"), {spec.expert_inner, spec.hidden}};
  tensors.up = {prefix + (mixtral ? "w3.weight" : "up_proj.weight"), {spec.expert_inner, spec.hidden}};
  tensors.down = {prefix + (mixtral ? "w2.weight" : "down_proj.weight"), {spec.hidden, spec.expert_inner}};
  return tensors;
}

FusedExpertTensors fused_expert_tensors(const ModelSpec& spec, int layer) {
  const std::string prefix = moe_prefix(spec, layer) + "experts.";
  FusedExpertTensors tensors;
  tensors.gate_up = {prefix + "gate_up_proj",
                     {spec.experts, std::int64_t{2} * spec.expert_inner, spec.hidden}};
  tensors.down = {prefix + "down_proj", {spec.experts, spec.hidden, spec.expert_inner}};
  return tensors;
}

}  // namespace moetune
