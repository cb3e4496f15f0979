// Which part of every layer a tensor-parallel rank owns. Start at Shard.
//
// Split: attention heads (key/value heads too, or replicated where there are fewer of them than ranks), the
// inner widths of dense, shared and routed feed-forwards, the vocabulary rows of the head. Replicated:
// embedding, norms, router, MLA's latent projections. Every rank adds its part of attention and feed-forward
// by an all-reduce.
#pragma once

#include <cstdint>

#include "engine/facts/model_spec.h"

namespace moetune {

// Rows or columns [begin, begin + count) of a whole.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

struct Shard {
  int rank = 0;
  int ranks = 1;

  // An equal part of `whole`; the first `whole % ranks` ranks get one more where it does not divide.
  Slice part_of(std::int64_t whole) const;

  Slice heads(const ModelSpec& spec) const { return part_of(spec.heads); }
  Slice kv_heads(const ModelSpec& spec) const;
  Slice dense_inner(const ModelSpec& spec) const { return part_of(spec.dense_inner); }
  Slice expert_inner(const ModelSpec& spec) const { return part_of(spec.expert_inner); }
  Slice shared_inner(const ModelSpec& spec) const {
    return part_of(std::int64_t{spec.shared_experts} * spec.expert_inner);
  }
  Slice vocabulary(const ModelSpec& spec) const { return part_of(spec.vocabulary); }
};

// Width of a query head and of the value it brings back.
inline int q_head_width(const ModelSpec& spec) {
  return spec.attention == AttentionKind::mla ? spec.qk_nope_dim + spec.qk_rope_dim : spec.head_dim;
}
inline int value_head_width(const ModelSpec& spec) {
  return spec.attention == AttentionKind::mla ? spec.v_head_dim : spec.head_dim;
}

}  // namespace moetune
