// Weights out of their tiles (kernels/tile_layout.h) into rows of bf16, as a library wants them, several
// matrices of one type and width in one launch. Start at untile().
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/view.cuh"
#include "kernels/weight_matrix.h"

namespace moetune::cuda {

struct Untile {
  static constexpr int kMostParts = 3;
  struct Part {
    MatrixLayout layout;  // in tiles
    const void* data;
    const float* bias;  // null: none
    int first_row;      // of `to` and `biases`
  };
  Part part[kMostParts];
  int parts;
  __nv_bfloat16* to;  // rows of untiled_width(), zeros beyond a matrix's own width
  float* biases;      // a row's; zero where its part has none; null: not wanted
};
// Columns of a row: whole chunks of a tile.
int untiled_width(const MatrixLayout& layout);
// Scales are applied, and what bf16 cannot hold is rounded once: the same numbers as the products of a prompt
// use (prompt_gemm.cuh), but for int8, whose rows' scales those apply to their sums.
void untile(Cuda& cuda, const Untile& op);

}  // namespace moetune::cuda
