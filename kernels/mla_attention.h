// MlaAttention: multi-head latent attention over the compressed cache, with the up-projections absorbed into
// the query and the output (DeepSeek-V2, arXiv 2405.04434, section 2.1). One cache row per token serves all
// heads.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct MlaAttention {
  Tensor q_latent;   // (tokens, heads, rank) f32: q_nope times the key up-projection
  Tensor q_rope;     // (tokens, heads, rope_dim) f32, outer axes may be strided
  Tensor cache;      // (slots, context, rank + rope_dim): normalised latent, then rotated k_rope
  Tensor scales{};   // as StoreKv's, one per row
  Tensor sequences;  // (tokens) i32
  Tensor positions;  // (tokens) i32
  Tensor y;          // (tokens, heads, rank) f32: still to be multiplied by the value up-projection
  float scale = 1.0F;
  int runs = 0;  // as Attention's
};
void run(Cpu& cpu, const MlaAttention& op);
void run(Cuda& cuda, const MlaAttention& op);

// y[t, h] = w[h] x[t, h]: one small matrix per head (the absorbed projections of MLA).
struct PerHeadGemm {
  Tensor x;  // (tokens, heads, in) f32, outer axes may be strided
  WeightMatrix
      w;  // (heads * out, in) f32, f16 or bf16; on a GPU in tiles where out is a multiple of 16, else in rows
  Tensor y;  // (tokens, heads, out) f32, outer axes may be strided
};
void run(Cpu& cpu, const PerHeadGemm& op);
void run(Cuda& cuda, const PerHeadGemm& op);

}  // namespace moetune
