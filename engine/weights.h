// Everything one rank holds of a model beside its routed experts. Start at load_weights().
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint.h"
#include "engine/facts/engine_options.h"
#include "engine/shard.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

// Views into Weights::memory; empty where the model has no such tensor. Shapes: the rank's part
// (dense_shapes.h).
struct FeedForwardWeights {
  WeightMatrix gate;  // (inner, hidden)
  WeightMatrix up;    // (inner, hidden)
  WeightMatrix down;  // (hidden, inner)
};

struct AttentionWeights {
  WeightMatrix q;     // gqa, and mla without q_lora
  WeightMatrix k;     // gqa
  WeightMatrix v;     // gqa
  WeightMatrix q_a;   // mla
  WeightMatrix q_b;   // mla
  WeightMatrix kv_a;  // mla
  WeightMatrix o;
  Tensor q_bias;  // f32, as all vectors
  Tensor k_bias;
  Tensor v_bias;
  Tensor q_a_bias;
  Tensor kv_a_bias;
  Tensor o_bias;  // on rank 0 only: the ranks' outputs are summed
  Tensor q_norm;
  Tensor k_norm;
  Tensor q_a_norm;
  Tensor kv_a_norm;
  WeightMatrix key_up;  // mla: (heads * kv_lora_rank, qk_nope_dim), the key up-projection transposed per head
  WeightMatrix value_up;  // mla: (heads * v_head_dim, kv_lora_rank)
};

struct LayerWeights {
  Tensor input_norm;           // (hidden)
  Tensor post_attention_norm;  // (hidden)
  AttentionWeights attention;
  FeedForwardWeights dense;   // layers that do not route
  WeightMatrix router;        // (experts, hidden), in the type it ships in
  Tensor router_bias;         // (experts) f32, for selection only
  Tensor router_favour;       // (experts) i32, of synthetic routing (engine/synthetic_routing.h)
  FeedForwardWeights shared;  // layers that route and have shared experts
};

struct Weights {
  WeightMatrix embedding;   // (vocabulary, hidden)
  WeightMatrix head;        // (vocabulary part, hidden); rows of the embedding when tied
  Tensor final_norm;        // (hidden)
  Tensor rope_frequencies;  // (rope.dim / 2)
  float rope_scale = 1.0F;
  float softmax_scale = 1.0F;
  std::uint64_t seed = 0;            // of generated numbers
  std::vector<LayerWeights> layers;  // of a folded model several view the same memory

  std::vector<Buffer> memory;
  std::int64_t bytes = 0;
};

// Loads a rank's part onto its device, packed by the host or, for a synthetic model, generated in place:
// matrices as the checkpoint ships them, or in options.dense_quant (not embedding, head and router, nor MLA's
// absorbed up-projections). Throws InputError naming a tensor whose weights do not fit the type,
// std::runtime_error when a file cannot be read.
Weights load_weights(Device& device, Cpu& host, const Checkpoint& checkpoint, const EngineOptions& options,
                     const Shard& shard);

}  // namespace moetune
