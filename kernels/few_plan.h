// How the kernels for few tokens (kernels/cuda/ffn_few.cuh) are cut, from sizes alone. Start at
// few_gate_shape() and few_down_shape().
#pragma once

#include <algorithm>

namespace moetune {

struct FewLimits {
  int multiprocessors;
  int most_tiles;  // of a block: the sums of each have room in shared memory
};

// How gate_up is cut: warps of a block, chunks of each (rounded up to what is under way), tiles of a block.
struct GateShape {
  static constexpr int kMostWarps = 8;
  static constexpr int kBlocksEach = 3;  // on a multiprocessor
  static constexpr int kTurn = 2;        // pairs of chunks, of gate and of up, that a warp has under way
  int warps;
  int steps;
  int tiles_each;
};
inline GateShape few_gate_shape(int chunks, int tiles, int choices, const FewLimits& limits) {
  GateShape shape{};
  for (int warps = GateShape::kMostWarps / 2 + 1; warps <= GateShape::kMostWarps;
       ++warps) {  // whose last chunks waste least
    const int steps = (chunks + warps * GateShape::kTurn - 1) / (warps * GateShape::kTurn) * GateShape::kTurn;
    if (shape.warps == 0 || steps * warps <= shape.steps * shape.warps)
      shape.warps = warps, shape.steps = steps;
  }
  // So many tiles that the busiest multiprocessor has least to do, and all blocks find room at once.
  int least = 0;
  for (int each = GateShape::kBlocksEach; each >= 2; --each) {
    const int most = std::max(1, each * limits.multiprocessors / choices);  // blocks of a choice
    const int tiles_each = std::min((tiles + most - 1) / most, limits.most_tiles);
    const int blocks = (tiles + tiles_each - 1) / tiles_each * choices;
    const int cost = (blocks + limits.multiprocessors - 1) / limits.multiprocessors * tiles_each;
    if (least == 0 || cost < least) least = cost, shape.tiles_each = tiles_each;
  }
  return shape;
}

// How down is cut: warps that share the chunks of a choice, warps of a block, tiles of a block.
struct DownShape {
  static constexpr int kMostWarps = 16;
  int splits;
  int warps;
  int tiles_each;
};
inline DownShape few_down_shape(int chunks, int tiles, int choices, const FewLimits& limits) {
  // Where all multiprocessors get the same number of tiles, one block runs over them; else two blocks share
  // one.
  int tiles_each = (tiles + limits.multiprocessors - 1) / limits.multiprocessors;
  int most_warps = DownShape::kMostWarps;
  if (tiles_each > 1 && 10 * tiles < 9 * tiles_each * limits.multiprocessors) {
    tiles_each = 1;
    most_warps = DownShape::kMostWarps / 2;
  }
  const int splits = std::clamp(most_warps / choices, 1, std::max(1, chunks / 2));
  constexpr int kLeastWarps = 2;  // a thread for every sum of a tile
  return {splits, std::max(choices * splits, kLeastWarps), std::min(tiles_each, limits.most_tiles)};
}

}  // namespace moetune
