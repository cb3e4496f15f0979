// Two tiles of weights that read the same activations, for steps of more than a few tokens: what is loaded of
// the activations serves both. Weights come straight from memory into registers; the activations are rows of
// bf16 in shared memory. Start at TilePair.
#pragma once

#include "kernels/cuda/few_product.cuh"

namespace moetune::cuda {

// NT: groups of 8 tokens.
template <NumberType type, int NT>
class TilePair {
 public:
  using F = Format<type>;
  static constexpr int kTurn = 2;  // chunks of each tile under way
  static constexpr int kBytes = HeldChunk<type>::kBytes;
  // Rows that are read together begin in different banks.
  __host__ __device__ static constexpr int row_bytes(int columns) { return columns * 2 + 64; }

  // A lane's place in rows that start at `rows`: for multiply().
  static __device__ __forceinline__ std::uint32_t place(const unsigned char* rows, int row_bytes) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(rows)) +
           static_cast<std::uint32_t>(lane / 4 * row_bytes + x_offset<type>(lane % 4, 0) * 2);
  }

  // Chunk `chunk` of tile i; a tile that is null is left as it is.
  __device__ __forceinline__ void fetch(int turn, int i, const unsigned char* tile, int chunk, int chunks) {
    if (tile != nullptr)
      held_[i][turn].fetch(tile + chunk * kBytes + threadIdx.x % 32 * 16, tile + chunks * kBytes);
  }

  // chunk: of the rows; groups: of tokens that are there.
  __device__ __forceinline__ void multiply(int turn, std::uint32_t at, int row_bytes, int chunk, int groups) {
    constexpr bool kHasScales = F::kScaleGroups > 0;
    constexpr int kPerScale = kHasScales ? F::kMmas / (kHasScales ? F::kScaleGroups : 1) : F::kMmas;
    float scaled[2][NT][4] = {};
    auto& to = kHasScales ? scaled : part_;
    uint4 b[NT];
#pragma unroll
    for (int m = 0; m < F::kMmas; ++m) {
      if (m % 2 == 0)
#pragma unroll
        for (int n = 0; n < NT; ++n)
          if (n == 0 || n < groups)
            b[n] = load_shared16(at + static_cast<std::uint32_t>(8 * n * row_bytes + chunk * F::kChunk * 2 +
                                                                 x_offset<type>(0, m / 2) * 2));
      std::uint32_t a[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) held_[i][turn].operands(m, a[i]);
#pragma unroll
      for (int n = 0; n < NT; ++n)
        if (n == 0 || n < groups)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            mma(to[i][n], a[i][0], a[i][1], a[i][2], a[i][3], word(b[n], 2 * (m % 2)),
                word(b[n], 2 * (m % 2) + 1));
      if constexpr (kHasScales) {
        if (m % kPerScale != kPerScale - 1) continue;
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float scale = held_[i][turn].scale_of(m / kPerScale, half);
#pragma unroll
            for (int n = 0; n < NT; ++n)
#pragma unroll
              for (int j = 2 * half; j < 2 * half + 2; ++j) {
                part_[i][n][j] += scale * scaled[i][n][j];
                scaled[i][n][j] = 0.0F;
              }
          }
      }
    }
  }

  // body(row of the tiles, token, sum of the first, of the second) for every sum of the lane; then they are
  // zeros.
  template <class Body>
  __device__ __forceinline__ void take(const Body& body) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        body(lane / 4 + c / 2 * 8, 8 * n + lane % 4 * 2 + c % 2, part_[0][n][c], part_[1][n][c]);
        part_[0][n][c] = part_[1][n][c] = 0.0F;
      }
  }

 private:
  HeldChunk<type> held_[2][kTurn];
  float part_[2][NT][4] = {};
};

}  // namespace moetune::cuda
