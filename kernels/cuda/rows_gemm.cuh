// A product with weights in rows (a router's, or those of each of MLA's heads) for many tokens, in f32: 64 tokens and up to 64
// rows of weights a block. Routing is decided by these sums, so that no tensor core may round them.
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

inline constexpr int kLeastTiledRows = 16;  // tokens

template <class Number>
__device__ __forceinline__ float4 four_numbers(const Number* row, int column, int in, bool is_aligned) {
  if (is_aligned && column + 4 <= in) {
    if constexpr (sizeof(Number) == 4) {
      return *reinterpret_cast<const float4*>(row + column);
    } else {
      const uint2 bits = *reinterpret_cast<const uint2*>(row + column);
      const auto* numbers = reinterpret_cast<const Number*>(&bits);
      return {widen(numbers[0]), widen(numbers[1]), widen(numbers[2]), widen(numbers[3])};
    }
  }
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = column + i < in ? widen(row[column + i]) : 0.0F;
  return {v[0], v[1], v[2], v[3]};
}

// One matrix a head (blockIdx.z): how far apart inputs and weights lie.
struct HeadSteps {
  int heads = 1;
  std::int64_t x = 0;
  std::int64_t w = 0;
};

// TN rows of weights, 16 or 64. A thread has 4 of them and TN / 16 tokens; the next 32 columns are on their way while it
// multiplies.
template <class Number, int TN, class Result>
__global__ void __launch_bounds__(256) tiled_rows(Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in, HeadSteps steps, Result result) {
  constexpr int TM = 64;
  constexpr int TK = 32;
  constexpr int kTokens = TN / 16;
  constexpr int kLoads = TM * TK / 4 / 256;
  constexpr int kWeightLoads = TN * TK / 4 / 256 > 0 ? TN * TK / 4 / 256 : 1;
  __shared__ __align__(16) float xs[TK][TM + 4];
  __shared__ __align__(16) float ws[TK][TN + 4];
  let_next_start();
  wait_for_previous();
  x.data += blockIdx.z * steps.x;
  w += blockIdx.z * steps.w;
  const auto thread = static_cast<int>(threadIdx.x);
  const int first_token = static_cast<int>(blockIdx.y) * TM;
  const int first_row = static_cast<int>(blockIdx.x) * TN;
  const bool x_aligned = x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  const bool w_aligned = w_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(w) % 16 == 0;
  float4 next_x[kLoads];
  float4 next_w[kWeightLoads];
  const auto load = [&](int column) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = thread + 256 * i;
      const int token = min(first_token + at / 8, tokens - 1);
      next_x[i] = four_numbers<float>(x.row(token), column + at % 8 * 4, in, x_aligned);
    }
#pragma unroll
    for (int i = 0; i < kWeightLoads; ++i) {
      const int at = thread + 256 * i;
      if (at >= TN * TK / 4) break;
      const int row = min(first_row + at / 8, out - 1);
      next_w[i] = four_numbers<Number>(w + row * w_stride, column + at % 8 * 4, in, w_aligned);
    }
  };
  const int my_rows = thread % (TN / 4) * 4;
  const int my_tokens = thread / (TN / 4) * kTokens;
  float sums[kTokens][4] = {};
  load(0);
  for (int column = 0; column < in; column += TK) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = thread + 256 * i;
      const float v[4] = {next_x[i].x, next_x[i].y, next_x[i].z, next_x[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) xs[at % 8 * 4 + j][at / 8] = v[j];
    }
#pragma unroll
    for (int i = 0; i < kWeightLoads; ++i) {
      const int at = thread + 256 * i;
      if (at >= TN * TK / 4) break;
      const float v[4] = {next_w[i].x, next_w[i].y, next_w[i].z, next_w[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) ws[at % 8 * 4 + j][at / 8] = v[j];
    }
    __syncthreads();
    if (column + TK < in) load(column + TK);
#pragma unroll
    for (int k = 0; k < TK; ++k) {
      const float4 b = *reinterpret_cast<const float4*>(&ws[k][my_rows]);
      float a[kTokens];
      if constexpr (kTokens == 4) {
        const float4 four = *reinterpret_cast<const float4*>(&xs[k][my_tokens]);
        a[0] = four.x, a[1] = four.y, a[2] = four.z, a[3] = four.w;
      } else {
        a[0] = xs[k][my_tokens];
      }
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        sums[i][0] += a[i] * b.x;
        sums[i][1] += a[i] * b.y;
        sums[i][2] += a[i] * b.z;
        sums[i][3] += a[i] * b.w;
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kTokens; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (first_token + my_tokens + i < tokens && first_row + my_rows + j < out)
        result.put(first_token + my_tokens + i, first_row + my_rows + j, sums[i][j]);
}

template <class Number, class Result>
void launch_tiled_rows(Cuda& cuda, Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in,
                       const HeadSteps& steps, const Result& result) {
  const int wide = out > 32 ? 64 : 16;
  launch(wide == 64 ? tiled_rows<Number, 64, Result> : tiled_rows<Number, 16, Result>,
         {.grid = dim3(blocks_for(out, wide), blocks_for(tokens, 64), static_cast<unsigned>(steps.heads)), .threads = 256},
         cuda.state().stream, true, x, tokens, w, w_stride, out, in, steps, result);
}

}  // namespace moetune::cuda
