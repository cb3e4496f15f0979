// What causal attention of many tokens shares, whatever the heads look like: tiles in shared memory, and
// which tokens of a block belong to one sequence. Device code only.
#pragma once

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {

inline constexpr int kLeastRun = 16;  // tokens of a sequence, on average, that are worth a block of many

template <bool kIsTransposed>
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t at) {
  if constexpr (kIsTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ float power_of_two(float exponent) {
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(exponent));
  return value;
}
// What rounding two values to `bits` lost.
__device__ __forceinline__ std::uint32_t lost2(float low, float high, std::uint32_t bits) {
  return pack2(low - __uint_as_float(bits << 16), high - __uint_as_float(bits & 0xFFFF0000U));
}

// A row of a tile is `width` elements, a multiple of 64; its 16-byte pieces are swizzled by the row.
template <int width>
__device__ __forceinline__ std::uint32_t piece_at(int row, int piece) {
  return static_cast<std::uint32_t>(row * width * 2 + (piece ^ row % 8) * 16);
}

// Neighbouring rows of a block whose tokens are of one sequence.
struct Run {
  int end;    // first row behind it
  int least;  // position of its tokens
  int most;
};

// The run that begins with row `begin` of a block; all threads, each for the row of its number, rows <=
// threads. token_of(row): the token of the step.
template <class TokenOf>
__device__ __forceinline__ Run next_run(Run& shared, const std::int32_t* sequences,
                                        const std::int32_t* positions, int begin, int rows,
                                        const TokenOf& token_of) {
  const auto thread = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (thread == 0) shared = {rows, 0x7FFFFFFF, 0};
  __syncthreads();
  const bool is_row = thread >= begin && thread < rows;
  const int token = token_of(is_row ? thread : begin);
  if (is_row && sequences[token] != sequences[token_of(begin)]) atomicMin(&shared.end, thread);
  __syncthreads();
  const int end = shared.end;
  if (is_row && thread < end) {
    atomicMin(&shared.least, positions[token]);
    atomicMax(&shared.most, positions[token]);
  }
  __syncthreads();
  return {end, shared.least, shared.most};
}

}  // namespace moetune::cuda
