// Whole products and feed-forwards of a step of many tokens: gather, products, and nothing else. Start at
// takes_prompt().
#pragma once

#include <functional>

#include "kernels/cuda/prompt_gemm.cuh"
#include "kernels/feed_forward.h"

namespace moetune::cuda {

// Is a step of this many tokens tiled in both directions (these functions) or decoded (tile_gemm.cuh,
// ffn_tiles.cuh)?
bool takes_prompt(int tokens);

// The same for a product alone, with matrices of `rows` rows in all. Where two parts are wanted nothing else
// has them; beyond that few rows are better sliced (H200, 64 tokens, 2,048 rows of 4,096: 18 us against 36).
bool takes_prompt_product(int tokens, std::int64_t rows);

struct PromptPart {
  MatrixLayout layout;
  const void* data;
  const float* bias;  // null: none
  Rows y;             // (tokens, layout.out)
};
// y_i = x w_i^T (+ bias), or y_i += where accumulates; all of one type and width.
void prompt_products(Cuda& cuda, Rows x, int tokens, const PromptPart* parts, int count, bool accumulates);

// The same by cuBLAS, with weights copied out of their tiles (kernels/dense_choice.h). norm: of x, before
// anything else; null: none. Parts whose results are neighbouring columns of the same rows are one product.
bool takes_cublas(const PromptPart* parts, int count, int tokens);
struct PromptNorm {
  const float* weight;
  float eps;
};
void cublas_products(Cuda& cuda, Rows x, int tokens, const PromptPart* parts, int count, bool accumulates,
                     const PromptNorm* norm = nullptr);

// A feed-forward without routing, whose matrices are in tiles of one type, likewise: what lies between the
// products goes through memory.
bool takes_cublas_for_ffn(const MatrixLayout& gate, int tokens);
void cublas_ffn(Cuda& cuda, const FeedForward& op);

// The same matrices in every slot of an expert; without routing one slot and all tokens.
struct PromptFfn {
  Rows x;
  int tokens;
  MatrixLayout gate;  // all three of one type
  MatrixLayout up;
  MatrixLayout down;
  const void* gate_data;  // of slot 0
  const void* up_data;
  const void* down_data;
  std::int64_t slot_bytes = 0;
  int k = 1;
  int experts = 0;                    // 0: no routing
  const std::int32_t* ids = nullptr;  // (tokens, k)
  std::int64_t ids_stride = 0;
  const std::int32_t* slot_of_expert = nullptr;
  Rows y;  // with routing row token * k + choice, else row token
  bool accumulates = false;
  const std::function<void()>* after_gate_up =
      nullptr;  // called between the two products, when the first is enqueued
};
void prompt_ffn(Cuda& cuda, const PromptFfn& op);

}  // namespace moetune::cuda
