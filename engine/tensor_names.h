// Names and shapes of the tensors of a checkpoint, per architecture, as Hugging Face hubs have them and as
// transformers 5 writes them (the same: save_pretrained takes its fused experts apart again).
// Start at layer_tensors(); routed experts are easier to get from Checkpoint::expert(), which knows how they
// are stored.
//
// Numbers that the names do not show (all from transformers' own classes):
//  - q_a_layernorm and kv_a_layernorm of MLA use eps 1e-6 whatever rms_norm_eps says (kLatentNormEps);
//  - biases exist only where spec.attention_bias is set: q, k, v, o for gqa; q_a, kv_a, o for mla (never
//  q_proj, q_b, kv_b);
//  - with YaRN, MLA multiplies its softmax scale by yarn_mscale(factor, mscale_all_dim)^2 on top of the
//  factor on cos and sin;
//    gqa does not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/facts/model_spec.h"

namespace moetune {

inline constexpr double kLatentNormEps = 1e-6;

// A tensor the model needs: its name on disk and the shape it must have. An empty name: this model has none.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool exists() const { return !name.empty(); }
};

// Tensors outside the layers.
struct ModelTensors {
  NamedTensor embedding;   // (vocabulary, hidden)
  NamedTensor final_norm;  // (hidden)
  NamedTensor head;        // (vocabulary, hidden); names the embedding itself when the embeddings are tied
};
ModelTensors model_tensors(const ModelSpec& spec);

// Tensors of one layer but for its routed experts. Widths in elements; matrices are (out, in).
struct LayerTensors {
  NamedTensor input_norm;           // (hidden), before attention
  NamedTensor post_attention_norm;  // (hidden), before the feed-forward half

  NamedTensor q;       // gqa, and mla without q_lora: (heads * head width, hidden)
  NamedTensor k;       // gqa: (kv_heads * head_dim, hidden)
  NamedTensor v;       // gqa: (kv_heads * head_dim, hidden)
  NamedTensor q_bias;  // gqa with attention_bias: (heads * head_dim)
  NamedTensor k_bias;  // (kv_heads * head_dim)
  NamedTensor v_bias;  // (kv_heads * head_dim)
  NamedTensor q_norm;  // gqa with qk_norm: (head_dim), eps is spec.rms_eps
  NamedTensor k_norm;  // (head_dim)

  NamedTensor q_a;       // mla with q_lora: (q_lora_rank, hidden)
  NamedTensor q_a_bias;  // (q_lora_rank)
  NamedTensor q_a_norm;  // (q_lora_rank), eps kLatentNormEps
  NamedTensor q_b;       // (heads * (qk_nope_dim + qk_rope_dim), q_lora_rank); per head nope first, then rope
  NamedTensor kv_a;  // mla: (kv_lora_rank + qk_rope_dim, hidden); latent first, then the shared rotary key
  NamedTensor kv_a_bias;  // (kv_lora_rank + qk_rope_dim)
  NamedTensor kv_a_norm;  // (kv_lora_rank), eps kLatentNormEps
  NamedTensor kv_b;  // (heads * (qk_nope_dim + v_head_dim), kv_lora_rank); per head key first, then value

  NamedTensor o;       // (hidden, heads * value width)
  NamedTensor o_bias;  // (hidden)

  NamedTensor dense_gate;  // layers that do not route: (dense_inner, hidden)
  NamedTensor dense_up;    // (dense_inner, hidden)
  NamedTensor dense_down;  // (hidden, dense_inner)

  NamedTensor router;       // layers that route: (experts, hidden)
  NamedTensor router_bias;  // rules with a bias: (experts), e_score_correction_bias
  NamedTensor shared_gate;  // with shared experts: (shared_experts * expert_inner, hidden)
  NamedTensor shared_up;    // (shared_experts * expert_inner, hidden)
  NamedTensor shared_down;  // (hidden, shared_experts * expert_inner)
};
LayerTensors layer_tensors(const ModelSpec& spec, int layer);

// The three matrices of one routed expert, each a tensor of its own.
struct ExpertTensors {
  NamedTensor gate;  // (expert_inner, hidden)
  NamedTensor up;    // (expert_inner, hidden)
  NamedTensor down;  // (hidden, expert_inner)
};
ExpertTensors expert_tensors(const ModelSpec& spec, int layer, int expert);

// All routed experts of a layer in two tensors, as a state dict of transformers 5 has them in memory.
struct FusedExpertTensors {
  NamedTensor gate_up;  // (experts, 2 * expert_inner, hidden): gate rows first, then up rows
  NamedTensor down;     // (experts, hidden, expert_inner)
};
FusedExpertTensors fused_expert_tensors(const ModelSpec& spec, int layer);

}  // namespace moetune
