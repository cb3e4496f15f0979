// A product with weights in rows (a router's) for many tokens, in f32.
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

// Lanes that differ in `offset` exchange halves of their sums and add: `count` are left of twice as many. A
// template, so that sums keep constant indices and with them their registers.
template <int count, int offset, int all>
__device__ __forceinline__ void halve_sums(float (&sums)[all], int lane) {
  const bool is_upper = (lane & offset) != 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float given = is_upper ? sums[i] : sums[i + count];
    const float kept = is_upper ? sums[i + count] : sums[i];
    sums[i] = kept + __shfl_xor_sync(0xFFFFFFFFU, given, offset);
  }
  if constexpr (offset > 1) halve_sums<count / 2, offset / 2>(sums, lane);
}

// A block takes eight tokens and eight rows of weights, its warps share the columns: many loads are under way
// whatever the number of tokens. Lanes then exchange halves of their sums until each holds two whole ones,
// which are added over the warps in order.
template <class Number, class Result>
__global__ void __launch_bounds__(256, 2)
    many_rows(Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in, Result result) {
  constexpr int kTokens = 8;
  constexpr int kRows = 8;
  constexpr int kWarps = 8;
  __shared__ float shared[kWarps][kTokens * kRows];
  let_next_start();
  wait_for_previous();
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const int first_token = static_cast<int>(blockIdx.y) * kTokens;
  const int first_row = static_cast<int>(blockIdx.x) * kRows;
  const bool x_aligned = x.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  const bool w_aligned = w_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(w) % 16 == 0;
  float sums[kTokens * kRows] = {};
  for (int column = (warp * 32 + lane) * 4; column < in; column += 128 * kWarps) {
    float4 a[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      a[t] = four_numbers<float>(x.row(min(first_token + t, tokens - 1)), column, in, x_aligned);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float4 b =
          four_numbers<Number>(w + min(first_row + r, out - 1) * w_stride, column, in, w_aligned);
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        sums[t * kRows + r] += a[t].x * b.x + a[t].y * b.y + a[t].z * b.z + a[t].w * b.w;
    }
  }
  halve_sums<kTokens * kRows / 2, 16>(sums, lane);
  shared[warp][2 * lane] = sums[0];
  shared[warp][2 * lane + 1] = sums[1];
  __syncthreads();
  const auto at = static_cast<int>(threadIdx.x);
  if (at >= kTokens * kRows) return;
  float sum = 0.0F;
  for (int other = 0; other < kWarps; ++other) sum += shared[other][at];
  if (first_token + at / kRows < tokens && first_row + at % kRows < out)
    result.put(first_token + at / kRows, first_row + at % kRows, sum);
}

template <class Number, class Result>
void launch_many_rows(Cuda& cuda, Rows x, int tokens, const Number* w, std::int64_t w_stride, int out, int in,
                      const Result& result) {
  launch(many_rows<Number, Result>, {.grid = dim3(blocks_for(out, 8), blocks_for(tokens, 8)), .threads = 256},
         cuda.state().stream, true, x, tokens, w, w_stride, out, in, result);
}

}  // namespace moetune::cuda
