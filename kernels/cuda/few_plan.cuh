// What the kernels for few tokens keep in shared memory, from sizes alone; how they are cut:
// kernels/few_plan.h.
#pragma once

#include <algorithm>

#include "kernels/cuda/few_columns.cuh"
#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

inline constexpr int kMostSharedBytes = 88 * 1024;  // of activations
inline constexpr int kMostSumBytes =
    10 * 1024;  // beside as many activations: every GPU from sm_80 on has both for a block

inline int padded(int columns) { return (columns + kScaledTogether - 1) / kScaledTogether * kScaledTogether; }

// What is staged for gate and up, or for down.
inline FewShape few_shape_of(NumberType type, const FfnWork& work, bool is_down) {
  const FfnTiles& tiles = is_down ? work.down : work.gate;
  const bool is_one = work.entries.kind == FfnEntries::Kind::one_token;
  const int width = tiles.chunks * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
  return {is_one ? 1 : work.entries.tokens, is_down && is_one ? work.entries.count : 1, padded(width),
          has_integers(type) ? 1 : 2};
}

// Sums of so many tiles have room beside what is staged. sum_bytes: of a tile.
inline int most_tiles_beside(const FewShape& shape, int sum_bytes) {
  return std::max(1, (kMostSharedBytes + kMostSumBytes - shape.bytes()) / sum_bytes);
}

}  // namespace moetune::cuda
