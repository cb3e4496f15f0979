// How the kernels for few tokens (kernels/cuda/ffn_few.cuh, ffn_beside.cuh) are cut, from sizes alone. Start
// at few_gate_shape() and few_down_shape(); with shared experts in the same launch, the same of a pair.
#pragma once

#include <algorithm>
#include <cstdint>

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

// Of one matrix.
struct FewSizes {
  int chunks;
  int tiles;
  int chunk_bytes;
};

// gate_up of a token's choices and, beside them, of what every token takes.
struct GatePairShape {
  int warps;  // of every block
  int steps;
  int tiles_each;
  int beside_steps;
  int beside_tiles_each;
};
inline GatePairShape few_gate_pair_shape(const FewSizes& routed, int choices, const FewSizes& beside,
                                         const FewLimits& limits) {
  const auto steps = [](const FewSizes& of, int warps) {
    return (of.chunks + warps * GateShape::kTurn - 1) / (warps * GateShape::kTurn) * GateShape::kTurn;
  };
  const auto bytes = [](const FewSizes& of, int chunks) { return std::int64_t{chunks} * of.chunk_bytes; };
  GatePairShape shape{};
  std::int64_t least = 0;
  for (int warps = GateShape::kMostWarps / 2 + 1; warps <= GateShape::kMostWarps; ++warps) {
    const std::int64_t padded = choices * routed.tiles * bytes(routed, warps * steps(routed, warps)) +
                                beside.tiles * bytes(beside, warps * steps(beside, warps));
    if (shape.warps == 0 || padded <= least) least = padded, shape.warps = warps;
  }
  shape.steps = steps(routed, shape.warps);
  shape.beside_steps = steps(beside, shape.warps);
  // The busiest multiprocessor has as many blocks as any, at worst all of the larger kind. Blocks that find
  // no room at once begin late and cost another turn.
  constexpr int kMostTiles = 16;
  const int most = std::min(limits.most_tiles, kMostTiles);
  const std::int64_t room = std::int64_t{GateShape::kBlocksEach} * limits.multiprocessors;
  least = 0;
  for (int beside_each = 1; beside_each <= most; ++beside_each)
    for (int each = 1; each <= most; ++each) {
      const std::int64_t blocks = (beside.tiles + beside_each - 1) / beside_each +
                                  std::int64_t{choices} * ((routed.tiles + each - 1) / each);
      const std::int64_t turns =
          (blocks + limits.multiprocessors - 1) / limits.multiprocessors + (blocks > room ? 1 : 0);
      const std::int64_t cost =
          turns * std::max(each * bytes(routed, routed.chunks), beside_each * bytes(beside, beside.chunks));
      if (shape.tiles_each != 0 && cost >= least) continue;
      least = cost;
      shape.tiles_each = each;
      shape.beside_tiles_each = beside_each;
    }
  return shape;
}

// down of both: how the warps of a block are shared out.
struct DownPairShape {
  int splits;         // warps of each choice
  int beside_splits;  // warps of the other
  int tiles_each;
};
inline DownPairShape few_down_pair_shape(const FewSizes& routed, int choices, const FewSizes& beside,
                                         const FewLimits& limits) {
  // Of as many warps as there may be, so many go to each that the busiest has least to read.
  DownPairShape shape{};
  std::int64_t least = 0;
  const auto most_bytes = [](const FewSizes& of, int warps) {
    return std::int64_t{(of.chunks + warps - 1) / warps} * of.chunk_bytes;
  };
  for (int splits = 1; choices * splits < DownShape::kMostWarps; ++splits) {
    const int left = std::min(DownShape::kMostWarps - choices * splits, std::max(1, beside.chunks));
    const std::int64_t cost = std::max(most_bytes(routed, splits), most_bytes(beside, left));
    if (shape.splits != 0 && cost >= least) continue;
    least = cost;
    shape.splits = splits;
    shape.beside_splits = left;
  }
  const int each = (routed.tiles + limits.multiprocessors - 1) / limits.multiprocessors;
  const bool is_balanced = each == 1 || 10 * routed.tiles >= 9 * each * limits.multiprocessors;
  shape.tiles_each = std::min(is_balanced ? each : 1, limits.most_tiles);
  return shape;
}

}  // namespace moetune
