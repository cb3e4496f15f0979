#include <algorithm>

#include "kernels/cuda/ffn_parts.cuh"
#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {
namespace {

constexpr int kDownWarps = 4;
constexpr int kJoinedWarps = 16;  // wanted
constexpr int kMostJoined = 16;   // choices a block can take

// Four activated elements of a pair; zeros where a warp's last chunk would be beyond the row's end.
__device__ __forceinline__ float4 four_activated(const FfnWork& work, const unsigned char* row, int column) {
  if (column >= work.activated_stride) return {0.0F, 0.0F, 0.0F, 0.0F};
  if (work.is_activated_f32) return reinterpret_cast<const float4*>(row)[column / 4];
  return unpacked(reinterpret_cast<const uint2*>(row)[column / 4]);
}

struct ResultRows {
  float* data;
  std::int64_t token_stride;
  std::int64_t choice_stride;
};

template <NumberType type, int NT, bool kIsStaged>
__global__ void __launch_bounds__(256) down(FfnWork work, ResultRows rows) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = TileStream<type, NT, kStages>;
  const FfnTiles& tiles = work.down;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int each = (tiles.chunks + warps - 1) / warps;
  const int first = warp * each;
  const int end = min(tiles.chunks, first + each);
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  auto* blocks = reinterpret_cast<float*>(shared + warps * Stream::kRingBytes);
  auto* staged = reinterpret_cast<unsigned char*>(blocks + warps * 128 * NT) + warp * work.staged_bytes;
  // Who goes where was settled before gate_up began (it let us start only after its own wait), so the weights
  // are fetched while it still runs; only the activations must be waited for.
  const Entry entry = entry_of(work, static_cast<int>(blockIdx.y));
  const unsigned char* tile = tiles.data + entry.slot_offset + blockIdx.x * tiles.tile_bytes;
  for (int base = 0; base < max(entry.count, 1); base += 8 * NT) {
    Stream stream;
    stream.start(ring, tile, entry.count > 0 ? first : 0, entry.count > 0 ? end : 0);
    if (base == 0) {
      let_next_start();
      wait_for_previous();
      if (entry.count == 0) return;
    }
    constexpr int kChunk = Format<type>::kChunk;
    const auto row_of = [&](int index) { return work.activated_row(entry.pair(base + index)); };
    float sums[NT][4] = {};
    if constexpr (kIsStaged) {
      const int count = min(work.staged_rows, entry.count - base);
      stage_columns(
          staged, count, work.parts, first * kChunk, each * kChunk, row_of,
          [&](const unsigned char* row, int column) { return four_activated(work, row, column); },
          [](int, const float4& read) { return read; });
      stream.finish(
          sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * count, first, each * kChunk));
    } else {
      stream.finish(sums, GlobalColumns<type, NT>([&](int n) -> const __nv_bfloat16* {
                      const int index = 8 * n + lane / 4;
                      return base + index < entry.count
                                 ? reinterpret_cast<const __nv_bfloat16*>(row_of(index))
                                 : nullptr;
                    }));
    }
    store_sums(blocks + warp * 128 * NT, sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
      const int row = static_cast<int>(blockIdx.x) * 16 + i % 16;
      const int index = base + i / 16;
      if (index >= entry.count || row >= tiles.out) continue;
      float sum = 0.0F;
      for (int from = 0; from < warps; ++from)
        for (int part = 0; part < (kIsStaged ? work.parts : 1); ++part)
          sum += blocks[from * 128 * NT + i % 16 * (8 * NT) + i / 16 + part * entry.count];
      const int pair = entry.pair(index);
      rows.data[pair / work.entries.k * rows.token_stride + pair % work.entries.k * rows.choice_stride +
                row] = sum * row_scale<type>(tile, tiles, i % 16);
    }
    __syncthreads();
  }
}

// A block takes 16 rows of the result and all choices: warp (choice, split) streams its part of that expert's
// tile. Up to eight tokens are columns; with experts there is one token.
template <NumberType type, bool kIsStaged>
__global__ void __launch_bounds__(32 * kJoinedWarps)
    down_joined(FfnWork work, int splits, Rows weights, Rows y) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = TileStream<type, 1, kStages>;
  const FfnTiles& tiles = work.down;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int choice = warp / splits;
  const int each = (tiles.chunks + splits - 1) / splits;
  const int first = warp % splits * each;
  const int end = min(tiles.chunks, first + each);
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  auto* blocks = reinterpret_cast<float*>(shared + warps * Stream::kRingBytes);
  // As in down: the choice was settled before gate_up began, the weights are on their way while it runs.
  const Entry entry = entry_of(work, choice);
  const unsigned char* tile = tiles.data + entry.slot_offset + blockIdx.x * tiles.tile_bytes;
  Stream stream;
  stream.start(ring, tile, entry.count > 0 ? first : 0, entry.count > 0 ? end : 0);
  let_next_start();
  wait_for_previous();
  const int column_count = entry.count;
  constexpr int kChunk = Format<type>::kChunk;
  const auto row_of = [&](int index) { return work.activated_row(entry.pair(index)); };
  float sums[1][4] = {};
  if constexpr (kIsStaged) {
    auto* staged = reinterpret_cast<unsigned char*>(blocks + warps * 128) + warp * work.staged_bytes;
    stage_columns(
        staged, column_count, work.parts, first * kChunk, each * kChunk, row_of,
        [&](const unsigned char* row, int column) { return four_activated(work, row, column); },
        [](int, const float4& read) { return read; });
    stream.finish(sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * column_count, first,
                                            each * kChunk));
  } else {
    stream.finish(sums, GlobalColumns<type, 1>([&](int) -> const __nv_bfloat16* {
                    return lane / 4 < column_count ? reinterpret_cast<const __nv_bfloat16*>(row_of(lane / 4))
                                                   : nullptr;
                  }));
  }
  float scale[2] = {1.0F, 1.0F};
  if constexpr (type == NumberType::int8)
    for (int half = 0; half < 2; ++half)
      scale[half] = entry.count > 0 ? row_scale<type>(tile, tiles, lane / 4 + 8 * half) : 0.0F;
  const float weight = weights.data != nullptr ? weights.row(0)[choice] : 1.0F;
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[0][i] *= weight * scale[i / 2];
  store_sums(blocks + warp * 128, sums);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * work.entries.tokens;
       i += static_cast<int>(blockDim.x)) {
    const int row = static_cast<int>(blockIdx.x) * 16 + i % 16;
    if (row >= tiles.out) continue;
    float sum = 0.0F;
    for (int from = 0; from < warps; ++from)
      for (int part = 0; part < (kIsStaged ? work.parts : 1); ++part)
        sum += blocks[from * 128 + i % 16 * 8 + i / 16 + part * work.entries.tokens];
    y.row(i / 16)[row] += sum;
  }
}

int joined_splits(const FfnWork& work) {
  return std::clamp(kJoinedWarps / work.entries.count, 1, std::max(1, work.down.chunks / 4));
}

// Bytes of a warp's staged part in down or down_joined; 0: it reads bf16 rows instead.
int down_staged_bytes(NumberType type, const FfnWork& work) {
  const bool is_joined = down_joins(work.entries);
  if (!is_joined && column_groups(work) > 1) return 0;
  const int sharing = is_joined ? joined_splits(work) : kDownWarps;
  const int warps = is_joined ? work.entries.count * sharing : kDownWarps;
  const int width =
      (work.down.chunks + sharing - 1) / sharing * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
  return staged_bytes(parts_for(work.entries.tokens) * rows_to_stage(work), width, warps);
}

}  // namespace

void run_down(Cuda& cuda, NumberType type, FfnWork work, float* rows, std::int64_t token_stride,
              std::int64_t choice_stride) {
  with_shape(type, work, work.down.chunks, kDownWarps, kDownWarps,
             [&](auto constant, auto groups, auto is_staged) {
               constexpr NumberType kType = decltype(constant)::value;
               constexpr int kGroups = decltype(groups)::value;
               launch(down<kType, kGroups, is_staged>,
                      {.grid = dim3(blocks_for(work.down.out, 16), static_cast<unsigned>(work.entries.count)),
                       .threads = 32 * kDownWarps,
                       .shared_bytes = kDownWarps * (bytes_per_warp<kType, kGroups>() + work.staged_bytes)},
                      cuda.state().stream, true, work, ResultRows{rows, token_stride, choice_stride});
             });
}

bool activates_f32(NumberType type, const FfnWork& work) {
  return parts_for(work.entries.tokens) == 2 && down_staged_bytes(type, work) > 0;
}

bool down_joins(const FfnEntries& entries) {
  if (entries.kind == FfnEntries::Kind::everyone) return entries.tokens <= 8;
  return entries.kind == FfnEntries::Kind::one_token && entries.count <= kMostJoined;
}

void run_down_joined(Cuda& cuda, NumberType type, FfnWork work, Rows weights, Rows y) {
  const int splits = joined_splits(work);
  const int warps = work.entries.count * splits;
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    work.staged_rows = rows_to_stage(work);
    work.parts = parts_for(work.entries.tokens);
    work.staged_bytes = staged_bytes(work.parts * work.staged_rows,
                                     (work.down.chunks + splits - 1) / splits * Format<kType>::kChunk, warps);
    launch(work.staged_bytes > 0 ? down_joined<kType, true> : down_joined<kType, false>,
           {.grid = dim3(blocks_for(work.down.out, 16)),
            .threads = 32 * warps,
            .shared_bytes = warps * (bytes_per_warp<kType, 1>() + work.staged_bytes)},
           cuda.state().stream, true, work, splits, weights, y);
  });
}

}  // namespace moetune::cuda
