// A product with weights in rows (a router's, or those of each of MLA's heads) for many tokens, in f32.
// Routing is decided by these sums, so that no tensor core may round them.
#pragma once

#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

inline constexpr int kLeastManyRows = 16;  // tokens

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

// A warp takes TT tokens and eight rows of weights; the warps of a block share the weights. Each lane sums its columns of all
// products; then lanes exchange halves of their sums until each holds TT / 4 whole ones.
template <class Number, int TT, class Result>
__global__ void __launch_bounds__(256) many_rows(Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in,
                                                 HeadSteps steps, Result result) {
  constexpr int TR = 8;
  let_next_start();
  wait_for_previous();
  x.data += blockIdx.z * steps.x;
  w += blockIdx.z * steps.w;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int first_token = (static_cast<int>(blockIdx.y) * 8 + static_cast<int>(threadIdx.x / 32)) * TT;
  const int first_row = static_cast<int>(blockIdx.x) * TR;
  if (first_token >= tokens) return;
  const bool x_aligned = x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  const bool w_aligned = w_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(w) % 16 == 0;
  float sums[TT * TR] = {};
  for (int column = lane * 4; column < in; column += 128) {
    float4 b[TR];
#pragma unroll
    for (int r = 0; r < TR; ++r) b[r] = four_numbers<Number>(w + min(first_row + r, out - 1) * w_stride, column, in, w_aligned);
#pragma unroll
    for (int t = 0; t < TT; ++t) {
      const float4 a = four_numbers<float>(x.row(min(first_token + t, tokens - 1)), column, in, x_aligned);
#pragma unroll
      for (int r = 0; r < TR; ++r) sums[t * TR + r] += a.x * b[r].x + a.y * b[r].y + a.z * b[r].z + a.w * b[r].w;
    }
  }
  int count = TT * TR;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    count /= 2;
    const bool is_upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float given = is_upper ? sums[i] : sums[i + count];
      const float kept = is_upper ? sums[i + count] : sums[i];
      sums[i] = kept + __shfl_xor_sync(0xFFFFFFFFU, given, offset);
    }
  }
#pragma unroll
  for (int i = 0; i < TT / 4; ++i) {
    const int at = lane * (TT / 4) + i;
    if (first_token + at / TR < tokens && first_row + at % TR < out) result.put(first_token + at / TR, first_row + at % TR, sums[i]);
  }
}

template <class Number, class Result>
void launch_many_rows(Cuda& cuda, Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in,
                      const HeadSteps& steps, const Result& result) {
  const int each = tokens >= 1024 ? 8 : 4;
  launch(each == 8 ? many_rows<Number, 8, Result> : many_rows<Number, 4, Result>,
         {.grid = dim3(blocks_for(out, 8), blocks_for(tokens, 8 * each), static_cast<unsigned>(steps.heads)), .threads = 256},
         cuda.state().stream, true, x, tokens, w, w_stride, out, in, steps, result);
}

}  // namespace moetune::cuda
