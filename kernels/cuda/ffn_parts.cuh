// What gate_up and down of tiles share: who a block works for, and how much of its columns each warp stages.
#pragma once

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/ffn_tiles.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {

inline constexpr int kStages = 6;

// The expert a block works for and its pairs (token * k + choice).
struct Entry {
  std::int64_t slot_offset;
  const std::int32_t* pairs;  // null: first, first + 1, ...
  int first;
  int count;

  __device__ __forceinline__ int pair(int index) const {
    return pairs != nullptr ? pairs[index] : first + index;
  }
};

__device__ __forceinline__ Entry entry_of(const FfnWork& work, int index) {
  const FfnEntries& entries = work.entries;
  if (entries.kind == FfnEntries::Kind::everyone) return {0, nullptr, 0, entries.tokens};
  if (entries.kind == FfnEntries::Kind::one_token) {
    const int expert = entries.ids[index];
    const int slot = expert >= 0 ? entries.slot_of_expert[expert] : -1;
    return {slot * work.slot_bytes, nullptr, index, slot >= 0 ? 1 : 0};
  }
  if (index >= *entries.sorted.count) return {0, nullptr, 0, 0};
  const int first = entries.sorted.first[index];
  return {entries.sorted.slots[index] * work.slot_bytes, entries.sorted.pairs + first, 0,
          entries.sorted.first[index + 1] - first};
}

// The int8 scale of a row follows the tile's chunks; other types have applied theirs.
template <NumberType type>
__device__ __forceinline__ float row_scale(const unsigned char* tile, const FfnTiles& tiles, int row) {
  if constexpr (type == NumberType::int8)
    return reinterpret_cast<const float*>(tile + std::int64_t{tiles.chunks} *
                                                     TileStream<type, 1, kStages>::kStageBytes)[row];
  return 1.0F;
}

template <NumberType type, int NT>
constexpr int bytes_per_warp() {
  return TileStream<type, NT, kStages>::kRingBytes + NT * 512;
}

// Tokens an expert can expect decide how many columns a block takes at once: known from the sizes alone.
inline int column_groups(const FfnWork& work) { return work.pairs() / work.entries.count <= 8 ? 1 : 4; }

inline int rows_to_stage(const FfnWork& work) {
  return std::min(kStagedRows, work.entries.kind == FfnEntries::Kind::one_token ? 1 : work.entries.tokens);
}

// Calls body(type, NT, is staged) as constants, after setting the work's staged_rows and staged_bytes for
// `warps` warps that share `chunks` chunks `sharing` at a time.
template <class Body>
void with_shape(NumberType type, FfnWork& work, int chunks, int sharing, int warps, const Body& body) {
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    work.staged_bytes = 0;
    if (column_groups(work) > 1) return body(constant, std::integral_constant<int, 4>{}, std::false_type{});
    work.staged_rows = rows_to_stage(work);
    work.parts = parts_for(work.entries.tokens);
    work.staged_bytes = staged_bytes(work.parts * work.staged_rows,
                                     (chunks + sharing - 1) / sharing * Format<kType>::kChunk, warps);
    if (work.staged_bytes > 0) return body(constant, std::integral_constant<int, 1>{}, std::true_type{});
    body(constant, std::integral_constant<int, 1>{}, std::false_type{});
  });
}

}  // namespace moetune::cuda
