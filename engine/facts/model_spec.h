// What a checkpoint says about itself: geometry, routing rule, number types. Read by engine/config.h, never
// edited after. Field names follow the papers and Hugging Face configurations; widths are in elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/facts/synthetic_routing.h"
#include "kernels/number_type.h"

namespace moetune {

enum class AttentionKind : std::uint8_t { gqa, mla };

// How a router turns its scores into k experts and their weights.
enum class RoutingRule : std::uint8_t {
  softmax_top_k,         // softmax over all experts, keep k (Qwen3, V2-Lite, Mixtral)
  grouped_sigmoid_bias,  // sigmoid; bias for selection only; groups scored by the sum of their top two
                         // (DeepSeek-V3)
  sqrt_softplus_bias,    // square root of softplus; bias for selection only; no groups (DeepSeek-V4)
};

// YaRN scaling of rotary embeddings (arXiv 2309.00071), as transformers reads it.
struct YarnScaling {
  double factor = 1.0;
  double original_context = 0.0;  // max positions before scaling
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double mscale = 0.0;          // 0: absent
  double mscale_all_dim = 0.0;  // 0: absent
  std::optional<double> attention_factor;
  bool truncate = true;
};

struct RopeSpec {
  double theta = 10000.0;
  int dim = 0;               // rotated elements per head
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + dim/2): DeepSeek's rope_interleave
  std::optional<YarnScaling> yarn;
};

struct ModelSpec {
  std::string name;          // directory or preset name
  std::string architecture;  // "DeepseekV3ForCausalLM", "MixtralForCausalLM", "Qwen3MoeForCausalLM"
  std::string content_hash;  // of config and weights, hex; identifies the model in logs and profiles
  NumberType checkpoint_type = NumberType::bf16;  // of the routed experts
  std::optional<NumberType> dense_type;  // of attention, dense and shared layers; empty: as the experts
  std::optional<NumberType> table_type;  // of embedding, head and router; empty: as the experts

  // A preset (engine/presets.h): published geometry, generated weights.
  bool is_synthetic = false;
  std::string approximation;  // what runs otherwise than in the published model; shown wherever it is named
  std::optional<SyntheticRouting> synthetic_routing;  // empty: the generated router decides, at random
  int fold = 1;  // so many layers share one set of weights: engine/folding.h

  int layers = 0;  // transformer blocks
  int hidden = 0;  // width of the residual stream
  int vocabulary = 0;
  int max_context = 0;  // positions the checkpoint was made for
  double rms_eps = 1e-6;
  bool tied_embeddings = false;

  AttentionKind attention = AttentionKind::gqa;
  int heads = 0;
  int kv_heads = 0;      // gqa
  int head_dim = 0;      // gqa
  bool qk_norm = false;  // gqa: RMS norm of q and k per head (Qwen3)
  bool attention_bias = false;
  int q_lora_rank = 0;     // mla; 0: q projected directly
  int kv_lora_rank = 0;    // mla: width of the compressed cache
  int qk_nope_dim = 0;     // mla, per head
  int qk_rope_dim = 0;     // mla, shared by all heads in k
  int v_head_dim = 0;      // mla
  int sliding_window = 0;  // 0: none
  RopeSpec rope;

  std::vector<bool> moe_layers;  // one per layer: does it route?
  int dense_inner = 0;           // inner width of dense feed-forward layers
  int experts = 0;               // routed experts per MoE layer
  int experts_per_token = 0;     // the model's own top-k
  int expert_inner = 0;          // inner width of one routed expert
  int shared_experts = 0;        // the shared feed-forward is shared_experts x expert_inner wide
  RoutingRule routing = RoutingRule::softmax_top_k;
  bool normalize_top_k = true;  // weights of the chosen k renormalised to sum to 1
  double routed_scaling_factor = 1.0;
  int expert_groups = 1;  // n_group
  int kept_groups = 1;    // topk_group

  int moe_layer_count() const {
    int count = 0;
    for (const bool routes : moe_layers) count += routes ? 1 : 0;
    return count;
  }
  NumberType dense_number_type() const { return dense_type.value_or(checkpoint_type); }
  NumberType table_number_type() const { return table_type.value_or(checkpoint_type); }
  std::int64_t expert_parameters() const { return std::int64_t{3} * hidden * expert_inner; }
};

}  // namespace moetune
