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
inline int most_tiles_beside(int staged_bytes, int sum_bytes) {
  return std::max(1, (kMostSharedBytes + kMostSumBytes - staged_bytes) / sum_bytes);
}

// Of a tile and warp of gate and up: what each token's rows add up to.
inline int sum_bytes_of(const FewShape& shape) {
  return 2 * shape.tokens * 16 * static_cast<int>(sizeof(float));
}

// Of a choice's down, what is worth having in the L2 cache when gate and up are done: what the memory
// delivers between their last weights and the first of down. More would only be in the way.
inline int brought_down_bytes(const FfnTiles& down, int choices) {
  constexpr std::int64_t kMost = 10 << 20;
  const std::int64_t bytes = (down.out + 15) / 16 * down.tile_bytes;
  return bytes * choices <= kMost ? static_cast<int>(bytes) : 0;
}

}  // namespace moetune::cuda
