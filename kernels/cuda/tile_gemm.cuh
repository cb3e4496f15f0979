// Products of weights in tiles with a few rows of activations, up to three matrices of one type that read the same rows
// in one kernel, with or without an RMSNorm in front. What Gemm and NormGemm have in common. Start at tile_gemm().
#pragma once

#include "kernels/cuda/view.cuh"
#include "kernels/number_type.h"

namespace moetune::cuda {

struct GemmPart {
  const unsigned char* tiles;
  std::int64_t tile_bytes;
  int out;
  int first_tile;  // of the whole launch
  const float* bias;
  Rows y;
};

struct TileGemm {
  static constexpr int kMostParts = 3;
  Rows x;
  int tokens;
  int in;
  int chunks;
  int tiles;  // of all parts
  int parts;
  GemmPart part[kMostParts];
  bool accumulates;
  const float* norm;  // null: x as it is
  float eps;
  const unsigned char* soon = nullptr;  // NormGemm::soon
  std::int64_t soon_bytes = 0;
};

#ifdef __CUDACC__
// A thread's share of op.soon into the L2 cache, for when its own weights have been read.
__device__ __forceinline__ void bring_soon(const TileGemm& op) {
  constexpr std::int64_t kMost = 24 << 20;  // what else is in the cache is needed too
  constexpr int kLine = 128;
  const std::int64_t bytes = op.soon_bytes < kMost ? op.soon_bytes : kMost;
  const auto threads = std::int64_t{gridDim.x} * gridDim.y * blockDim.x;
  const auto thread = (std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t at = thread * kLine; at < bytes; at += threads * kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(op.soon + at));
}
#endif

// May a norm be part of this launch? Not where the rows would take too much shared memory.
bool norm_fits(Cuda& cuda, NumberType type, const TileGemm& op);

// Throws std::invalid_argument for a type without tiles.
void tile_gemm(Cuda& cuda, NumberType type, const TileGemm& op);

}  // namespace moetune::cuda
