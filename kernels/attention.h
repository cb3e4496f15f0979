// Attention with grouped key/value heads over a KV cache (GQA, arXiv 2305.13245), causal by position.
// Decode and prefill are the same op: every token sees the cache of its sequence up to and including its own
// position.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Writes the new rows of a step into the cache.
struct StoreKv {
  Tensor rows;       // (tokens, width) f32
  Tensor sequences;  // (tokens) i32, slot of each token's sequence
  Tensor positions;  // (tokens) i32
  Tensor cache;      // (slots, context, width) f32, f16, bf16, fp8 (e4m3, no scales; saturates) or int8
  Tensor scales{};   // int8: (slots, context, heads) f32, written: largest magnitude of a head's part of the
                     // row / 127; else empty
};
void run(Cpu& cpu, const StoreKv& op);
void run(Cuda& cuda, const StoreKv& op);

struct Attention {
  Tensor q;           // (tokens, heads, head_dim) f32
  Tensor k_cache;     // (slots, context, kv_heads * head_dim), the type of StoreKv's cache
  Tensor v_cache;     // (slots, context, kv_heads * head_dim)
  Tensor k_scales{};  // as StoreKv's, one per kv head
  Tensor v_scales{};
  Tensor sequences;  // (tokens) i32
  Tensor positions;  // (tokens) i32
  Tensor y;          // (tokens, heads, head_dim) f32
  int kv_heads = 1;  // heads is a multiple
  float scale = 1.0F;
  int window = 0;  // > 0: only the last `window` positions are seen
  // Neighbouring tokens of one sequence count as one run: few runs of many tokens are a prompt. 0: not known.
  int runs = 0;
};
void run(Cpu& cpu, const Attention& op);
void run(Cuda& cuda, const Attention& op);

}  // namespace moetune
