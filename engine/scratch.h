// Activations of one step on one rank, allocated once for the largest step. Start at scratch_items(): the
// list that both the allocation and the memory plan read.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "engine/facts/engine_options.h"
#include "engine/facts/model_spec.h"
#include "engine/shard.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Scratch {
  // What the step is about, (tokens) i32 each.
  OwnedTensor ids;
  OwnedTensor sequences;
  OwnedTensor positions;
  OwnedTensor wanted;  // (logit rows) i32: rows of the step that want logits

  OwnedTensor residual;  // (tokens, hidden) f32, as all below
  OwnedTensor normed;    // (tokens, hidden)
  OwnedTensor output;    // (tokens, hidden) of attention or feed-forward, before it joins the residual

  OwnedTensor projected;        // (tokens, widths of all): what ProjectedHeads is made of
  OwnedTensor q;                // mla with q_lora: (tokens, heads part, q head width)
  OwnedTensor q_latent;         // mla: (tokens, heads part, kv_lora_rank)
  OwnedTensor attended_latent;  // mla: (tokens, heads part, kv_lora_rank)
  OwnedTensor attended;         // (tokens, heads part, value head width)

  OwnedTensor gate_up;  // (tokens, twice the widest dense or shared inner part): what GatedRows are made of

  OwnedTensor router_logits;   // (tokens, experts)
  OwnedTensor expert_ids;      // (tokens, k) i32
  OwnedTensor expert_weights;  // (tokens, k)
  OwnedTensor expert_rows;     // (tokens, k, hidden)

  OwnedTensor wanted_rows;  // (logit rows, hidden)
  OwnedTensor logits;       // (logit rows, vocabulary part)

  // Of `projected` and `gate_up`: on a GPU columns of the same rows, so that one product may write all of
  // them; on a CPU, whose ops want whole rows, one behind the other.
  bool is_side_by_side = false;

  std::int64_t bytes() const;
};

// What the projections of a step write.
struct ProjectedHeads {
  Tensor q;  // (tokens, heads part, q head width)
  Tensor k;  // gqa: (tokens, kv heads part, head_dim); mla: (tokens, 1, kv_lora_rank + qk_rope_dim)
  Tensor v;  // gqa: (tokens, kv heads part, head_dim)
  Tensor q_compressed;  // mla with q_lora: (tokens, q_lora_rank)
};
ProjectedHeads projected_heads(const Scratch& scratch, const ModelSpec& spec, const Shard& shard,
                               std::int64_t tokens);
// The same as a product sees them: (tokens, heads * width).
Tensor flat_heads(const Tensor& heads);

// Between the products of a feed-forward: (tokens, inner) each; inner: at most the widest.
struct GatedRows {
  Tensor gated;
  Tensor upped;
};
GatedRows gated_rows(const Scratch& scratch, std::int64_t tokens, std::int64_t inner);

struct ScratchItem {
  OwnedTensor Scratch::* member;
  NumberType type;
  std::array<std::int64_t, 3> shape;  // the last may be 1
  std::int64_t bytes() const { return shape[0] * shape[1] * shape[2] * element_bytes(type); }
};

// tokens, logit_rows: most of one step. Sized for the model's own top-k, so that changing top_k needs no new
// scratch.
std::vector<ScratchItem> scratch_items(const ModelSpec& spec, const Shard& shard, std::int64_t tokens,
                                       std::int64_t logit_rows);

Scratch make_scratch(Device& device, const std::vector<ScratchItem>& items);

// What ops of one step take for their own intermediate results, at most: 0 on a CPU. An upper bound over all
// kernels, so that none of them has to grow it while something is measured.
std::int64_t op_scratch_bytes(const ModelSpec& spec, const EngineOptions& options, const Shard& shard,
                              std::int64_t tokens);

// The first rows of a scratch tensor under another shape.
inline Tensor first_rows(const OwnedTensor& owned, std::initializer_list<std::int64_t> shape) {
  return {owned.view().data(), owned.view().type(), shape};
}

}  // namespace moetune
