// How the kernels for few tokens are cut, from sizes alone. Start at few_gate_shape() and few_down_shape().
#pragma once

#include <algorithm>

#include "kernels/cuda/few_columns.cuh"
#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

inline constexpr int kGateWarps = 8;
inline constexpr int kGateBlocksEach = 3;  // on a multiprocessor
inline constexpr int kDownWarps = 16;
inline constexpr int kMostSharedBytes =
    88 * 1024;                   // of activations: every GPU from sm_80 on has that and the sums for a block
inline constexpr int kHeld = 4;  // chunks a warp has under way

inline int padded(int columns) { return (columns + kScaledTogether - 1) / kScaledTogether * kScaledTogether; }

// What is staged for gate and up, or for down.
inline FewShape few_shape_of(NumberType type, const FfnWork& work, bool is_down) {
  const FfnTiles& tiles = is_down ? work.down : work.gate;
  const bool is_one = work.entries.kind == FfnEntries::Kind::one_token;
  const int width = tiles.chunks * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
  return {is_one ? 1 : work.entries.tokens, is_down && is_one ? work.entries.count : 1, padded(width),
          has_integers(type) ? 1 : 2};
}

// How gate_up is cut: warps of a block, chunks of each (rounded up to what is under way), tiles of a block.
struct GateShape {
  int warps;
  int steps;
  int tiles_each;
};
inline GateShape few_gate_shape(int chunks, int tiles, int choices, int multiprocessors) {
  constexpr int kTurn = kHeld / 2;
  GateShape shape{};
  for (int warps = kGateWarps / 2 + 1; warps <= kGateWarps; ++warps) {  // whose last chunks waste least
    const int steps = (chunks + warps * kTurn - 1) / (warps * kTurn) * kTurn;
    if (shape.warps == 0 || steps * warps <= shape.steps * shape.warps)
      shape.warps = warps, shape.steps = steps;
  }
  // So many tiles that the busiest multiprocessor has least to do, and all blocks find room at once.
  int least = 0;
  for (int each = kGateBlocksEach; each >= 2; --each) {
    const int most = std::max(1, each * multiprocessors / choices);  // blocks of a choice
    const int tiles_each = (tiles + most - 1) / most;
    const int blocks = (tiles + tiles_each - 1) / tiles_each * choices;
    const int cost = (blocks + multiprocessors - 1) / multiprocessors * tiles_each;
    if (least == 0 || cost < least) least = cost, shape.tiles_each = tiles_each;
  }
  return shape;
}

// How down is cut: warps that share the chunks of a choice, warps of a block, tiles of a block.
struct DownShape {
  int splits;
  int warps;
  int tiles_each;
};
inline DownShape few_down_shape(const FfnWork& work, int tokens, int multiprocessors) {
  const int tiles = (work.down.out + 15) / 16;
  // Where all multiprocessors get the same number of tiles, one block runs over them; else two blocks share
  // one.
  int tiles_each = (tiles + multiprocessors - 1) / multiprocessors;
  int most_warps = kDownWarps;
  if (tiles_each > 1 && 10 * tiles < 9 * tiles_each * multiprocessors) {
    tiles_each = 1;
    most_warps = kDownWarps / 2;
  }
  const int splits = std::clamp(most_warps / work.entries.count, 1, std::max(1, work.down.chunks / 2));
  return {splits, std::max(work.entries.count * splits, (tokens + 1) / 2),
          tiles_each};  // a thread for every sum
}

}  // namespace moetune::cuda
