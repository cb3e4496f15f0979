// How a product of several tokens is cut into slices: from sizes and what the GPU has. Start at slices_of().
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/cuda/tile_gemm.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace moetune::cuda {

inline constexpr int kSliceWarps = 8;
inline constexpr int kPairTurn = TilePair<NumberType::bf16, 1>::kTurn;

inline constexpr int kMostSliceBytes = 72 * 1024;  // of activations: two blocks to a multiprocessor
inline constexpr int kSumStride = 33;              // of a token's 32 rows: other banks

struct Slices {
  int count;
  int chunks;  // of each
  int groups;  // blocks that share the tiles of one slice
  int steps;   // chunks of a warp, rounded up
};

template <int NT>
inline int sliced_shared_bytes(int slice_columns) {
  return 8 * NT * TilePair<NumberType::bf16, 1>::row_bytes(slice_columns) +
         kSliceWarps * 8 * NT * kSumStride * static_cast<int>(sizeof(float));
}

// The slices that leave the least work to the busiest multiprocessor, counted in chunks of a warp: what a
// block does besides, and for every pair of tiles, costs as much as some of them.
template <int NT>
inline Slices slices_of(const TileGemm& op, int chunk_columns, int multiprocessors, int most_shared) {
  constexpr int kBesides = 4;
  constexpr int kBesidesUnit = 2;
  constexpr int kMostSlices = 64;
  constexpr int kDeclaredBytes = 1024;  // what the kernel declares itself, at most
  const int pairs = (op.tiles + 1) / 2;
  const int token_groups = (op.tokens + 8 * NT - 1) / (8 * NT);
  Slices best{};
  int least = 0;
  for (int count = 1; count <= kMostSlices && count <= op.chunks; ++count) {
    Slices slices{};
    slices.chunks = (op.chunks + count - 1) / count;
    slices.count = (op.chunks + slices.chunks - 1) / slices.chunks;
    const int columns = slices.chunks * chunk_columns;
    if (8 * NT * TilePair<NumberType::bf16, 1>::row_bytes(columns) > kMostSliceBytes) continue;
    if (sliced_shared_bytes<NT>(columns) + kDeclaredBytes > most_shared) continue;
    slices.steps = (slices.chunks + kSliceWarps * kPairTurn - 1) / (kSliceWarps * kPairTurn) * kPairTurn;
    const int room = std::max(1, 2 * multiprocessors / (slices.count * token_groups));
    const int units_each = (pairs + room - 1) / room;
    slices.groups = (pairs + units_each - 1) / units_each;
    const int waves = (slices.groups * slices.count * token_groups + multiprocessors - 1) / multiprocessors;
    const int cost = waves * (units_each * (slices.steps + kBesidesUnit) + kBesides);
    if (least == 0 || cost < least) least = cost, best = slices;
  }
  if (best.count == 0)
    throw std::invalid_argument("rows of " + std::to_string(op.in) + " columns are too wide for a step of " +
                                std::to_string(op.tokens) + " tokens on this GPU");
  return best;
}

}  // namespace moetune::cuda
