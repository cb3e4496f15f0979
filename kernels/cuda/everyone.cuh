// A FeedForward as work of the experts' kernels: one expert that everyone chose.
#pragma once

#include "kernels/cuda/ffn_tiles.cuh"
#include "kernels/feed_forward.h"

namespace moetune::cuda {

// Three matrices in tiles of one type.
inline bool is_uniform(const FeedForward& op) {
  const NumberType type = op.gate.layout.type;
  return op.gate.layout.packing == Packing::tiles && op.up.layout.type == type &&
         op.down.layout.packing == Packing::tiles && op.down.layout.type == type;
}

// Of a uniform one: everything but what lies in scratch memory.
inline FfnWork everyone_takes(const FeedForward& op) {
  FfnWork work{};
  work.x = rows_of(op.x);
  work.gate = FfnTiles::of(op.gate.layout, op.gate.data);
  work.up = FfnTiles::of(op.up.layout, op.up.data);
  work.down = FfnTiles::of(op.down.layout, op.down.data);
  work.entries = {.kind = FfnEntries::Kind::everyone,
                  .count = 1,
                  .tokens = static_cast<int>(op.x.dim(0)),
                  .k = 1,
                  .sorted = {},
                  .ids = nullptr,
                  .slot_of_expert = nullptr,
                  .experts = 0};
  work.activated_stride = padded_width(op.down.layout);
  return work;
}

}  // namespace moetune::cuda
