#include "kernels/cuda/ffn_tiles.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

constexpr int kStages = 6;
constexpr int kMostGateWarps = 8;
constexpr int kDownWarps = 4;
constexpr int kJoinedWarps = 16;   // wanted
constexpr int kMostJoined = 16;    // choices a block can take

// The expert a block works for and its pairs (token * k + choice).
struct Entry {
  std::int64_t slot_offset;
  const std::int32_t* pairs;  // null: first, first + 1, ...
  int first;
  int count;

  __device__ __forceinline__ int pair(int index) const { return pairs != nullptr ? pairs[index] : first + index; }
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

// Warps [0, half) take gate, the others up.
template <NumberType type, int NT, bool kIsStaged>
__global__ void __launch_bounds__(32 * kMostGateWarps, NT > 1 ? 1 : 3) gate_up(FfnWork work) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = TileStream<type, NT, kStages>;
  wait_for_previous();
  let_next_start();
  const Entry entry = entry_of(work, static_cast<int>(blockIdx.y));
  if (entry.count == 0) return;
  if (blockIdx.x * 16 >=
      static_cast<unsigned>(work.gate.out)) {  // only the padding of a chunk that down will read
    for (int i = static_cast<int>(threadIdx.x); i < entry.count * 16; i += static_cast<int>(blockDim.x))
      work.put_activated(entry.pair(i / 16), static_cast<int>(blockIdx.x) * 16 + i % 16, 0.0F);
    return;
  }
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto half = static_cast<int>(blockDim.x / 64);
  const bool is_gate = warp < half;
  const FfnTiles& tiles = is_gate ? work.gate : work.up;
  const int each = (tiles.chunks + half - 1) / half;
  const int first = warp % half * each;
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  auto* blocks = reinterpret_cast<float*>(shared + blockDim.x / 32 * Stream::kRingBytes);
  const unsigned char* tile = tiles.data + entry.slot_offset + blockIdx.x * tiles.tile_bytes;
  constexpr int kChunk = Format<type>::kChunk;
  auto* staged = reinterpret_cast<unsigned char*>(blocks + blockDim.x / 32 * 128 * NT) + warp * work.staged_bytes;
  const bool is_aligned = tiles.in % 4 == 0 && work.x.stride % 4 == 0;
  for (int base = 0; base < entry.count; base += 8 * NT) {
    Stream stream;
    stream.start(ring, tile, first, min(tiles.chunks, first + each));
    const auto token_of = [&](int index) { return entry.pair(base + index) / work.entries.k; };
    float sums[NT][4] = {};
    if constexpr (kIsStaged) {
      const int count = min(work.staged_rows, entry.count - base);
      stage_columns(
          staged, count, work.parts, first * kChunk, each * kChunk,
          [&](int index) { return static_cast<const float*>(work.x.row(token_of(index))); },
          [&](const float* row, int column) { return four_of(row, column, tiles.in, is_aligned); },
          [](int, const float4& read) { return read; });
      stream.finish(sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * count, first, each * kChunk));
    } else {
      stream.finish(sums, GlobalColumns<type, NT>([&](int n) -> const __nv_bfloat16* {
        const int index = 8 * n + lane / 4;
        return base + index < entry.count ? work.x16 + std::int64_t{token_of(index)} * tiles.chunks * kChunk : nullptr;
      }));
    }
    store_sums(blocks + warp * 128 * NT, sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
      const int row = i % 16;
      const int index = base + i / 16;
      if (index >= entry.count) continue;
      float gate = 0.0F;
      float up = 0.0F;
      for (int from = 0; from < half; ++from)
        for (int part = 0; part < (kIsStaged ? work.parts : 1); ++part) {
          const int at = row * (8 * NT) + i / 16 + part * entry.count;
          gate += blocks[from * 128 * NT + at];
          up += blocks[(half + from) * 128 * NT + at];
        }
      gate *= row_scale<type>(work.gate.data + entry.slot_offset + blockIdx.x * work.gate.tile_bytes, work.gate, row);
      up *= row_scale<type>(work.up.data + entry.slot_offset + blockIdx.x * work.up.tile_bytes, work.up, row);
      // Rows beyond inner are zeros in the tile, so the padding of activated becomes zero.
      work.put_activated(entry.pair(index), static_cast<int>(blockIdx.x) * 16 + row, gate / (1.0F + __expf(-gate)) * up);
    }
    __syncthreads();
  }
}

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
      stream.finish(sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * count, first, each * kChunk));
    } else {
      stream.finish(sums, GlobalColumns<type, NT>([&](int n) -> const __nv_bfloat16* {
        const int index = 8 * n + lane / 4;
        return base + index < entry.count ? reinterpret_cast<const __nv_bfloat16*>(row_of(index)) : nullptr;
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
      rows.data[pair / work.entries.k * rows.token_stride + pair % work.entries.k * rows.choice_stride + row] =
          sum * row_scale<type>(tile, tiles, i % 16);
    }
    __syncthreads();
  }
}

// A block takes 16 rows of the result and all choices: warp (choice, split) streams its part of that expert's tile. Up to
// eight tokens are columns; with experts there is one token.
template <NumberType type, bool kIsStaged>
__global__ void __launch_bounds__(32 * kJoinedWarps) down_joined(FfnWork work, int splits, Rows weights, Rows y) {
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
    stream.finish(sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * column_count, first, each * kChunk));
  } else {
    stream.finish(sums, GlobalColumns<type, 1>([&](int) -> const __nv_bfloat16* {
      return lane / 4 < column_count ? reinterpret_cast<const __nv_bfloat16*>(row_of(lane / 4)) : nullptr;
    }));
  }
  float scale[2] = {1.0F, 1.0F};
  if constexpr (type == NumberType::int8)
    for (int half = 0; half < 2; ++half) scale[half] = entry.count > 0 ? row_scale<type>(tile, tiles, lane / 4 + 8 * half) : 0.0F;
  const float weight = weights.data != nullptr ? weights.row(0)[choice] : 1.0F;
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[0][i] *= weight * scale[i / 2];
  store_sums(blocks + warp * 128, sums);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 16 * work.entries.tokens; i += static_cast<int>(blockDim.x)) {
    const int row = static_cast<int>(blockIdx.x) * 16 + i % 16;
    if (row >= tiles.out) continue;
    float sum = 0.0F;
    for (int from = 0; from < warps; ++from)
      for (int part = 0; part < (kIsStaged ? work.parts : 1); ++part)
        sum += blocks[from * 128 + i % 16 * 8 + i / 16 + part * work.entries.tokens];
    y.row(i / 16)[row] += sum;
  }
}

template <NumberType type, int NT>
constexpr int bytes_per_warp() {
  return TileStream<type, NT, kStages>::kRingBytes + NT * 512;
}

// Tokens an expert can expect decide how many columns a block takes at once: known from the sizes alone.
int column_groups(const FfnWork& work) { return work.pairs() / work.entries.count <= 8 ? 1 : 4; }

int rows_to_stage(const FfnWork& work) {
  return std::min(kStagedRows, work.entries.kind == FfnEntries::Kind::one_token ? 1 : work.entries.tokens);
}

// Calls body(type, NT, is staged) as constants, after setting the work's staged_rows and staged_bytes for `warps` warps that
// share `chunks` chunks `sharing` at a time.
template <class Body>
void with_shape(NumberType type, FfnWork& work, int chunks, int sharing, int warps, const Body& body) {
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    work.staged_bytes = 0;
    if (column_groups(work) > 1) return body(constant, std::integral_constant<int, 4>{}, std::false_type{});
    work.staged_rows = rows_to_stage(work);
    work.parts = parts_for(work.entries.tokens);
    work.staged_bytes = staged_bytes(work.parts * work.staged_rows, (chunks + sharing - 1) / sharing * Format<kType>::kChunk, warps);
    if (work.staged_bytes > 0) return body(constant, std::integral_constant<int, 1>{}, std::true_type{});
    body(constant, std::integral_constant<int, 1>{}, std::false_type{});
  });
}

}  // namespace

FfnTiles FfnTiles::of(const MatrixLayout& matrix, const void* data) {
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  return {static_cast<const unsigned char*>(data), layout.tile_bytes, static_cast<int>(layout.chunks),
          static_cast<int>(matrix.out), static_cast<int>(matrix.in)};
}

std::int64_t padded_width(const MatrixLayout& matrix) {
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  return layout.chunks * layout.chunk;
}

namespace {

// How many warps share a tile of gate, and as many one of up. A warp costs some hundred instructions before its first product:
// no more of them than keep the multiprocessors busy where decoding needs most of the instructions (4 bits), and never for
// fewer than four chunks.
int gate_sharing(Cuda& cuda, NumberType type, const FfnWork& work) {
  constexpr int kMost = kMostGateWarps / 2;
  if (TileLayout::of(type, 1, 1).chunk < 128) return std::clamp(work.gate.chunks / 8, 1, kMost);
  constexpr int kWarpsPerMultiprocessor = 16;
  const auto blocks = static_cast<int>(work.activated_stride / 16) * work.entries.count;
  return std::clamp(kWarpsPerMultiprocessor * cuda.state().multiprocessors / (2 * blocks), 1,
                    std::clamp(work.gate.chunks / 4, 1, kMost));
}

}  // namespace

void run_gate_up(Cuda& cuda, NumberType type, FfnWork work) {
  const int sharing = gate_sharing(cuda, type, work);
  const int warps = 2 * sharing;
  with_shape(type, work, work.gate.chunks, sharing, warps, [&](auto constant, auto groups, auto is_staged) {
    constexpr NumberType kType = decltype(constant)::value;
    constexpr int kGroups = decltype(groups)::value;
    if (!is_staged)
      to_bf16_rows(cuda, work.x, work.entries.tokens, work.gate.in, work.gate.chunks * Format<kType>::kChunk, work.x16);
    launch(gate_up<kType, kGroups, is_staged>,
           {.grid = dim3(static_cast<unsigned>(work.activated_stride / 16), static_cast<unsigned>(work.entries.count)),
            .threads = 32 * warps,
            .shared_bytes = warps * (bytes_per_warp<kType, kGroups>() + work.staged_bytes)},
           cuda.state().stream, true, work);
  });
}

void run_down(Cuda& cuda, NumberType type, FfnWork work, float* rows, std::int64_t token_stride,
              std::int64_t choice_stride) {
  with_shape(type, work, work.down.chunks, kDownWarps, kDownWarps, [&](auto constant, auto groups, auto is_staged) {
    constexpr NumberType kType = decltype(constant)::value;
    constexpr int kGroups = decltype(groups)::value;
    launch(down<kType, kGroups, is_staged>,
           {.grid = dim3(blocks_for(work.down.out, 16), static_cast<unsigned>(work.entries.count)),
            .threads = 32 * kDownWarps,
            .shared_bytes = kDownWarps * (bytes_per_warp<kType, kGroups>() + work.staged_bytes)},
           cuda.state().stream, true, work, ResultRows{rows, token_stride, choice_stride});
  });
}

namespace {

int joined_splits(const FfnWork& work) {
  return std::clamp(kJoinedWarps / work.entries.count, 1, std::max(1, work.down.chunks / 4));
}

// Bytes of a warp's staged part in down or down_joined; 0: it reads bf16 rows instead.
int down_staged_bytes(NumberType type, const FfnWork& work) {
  const bool is_joined = down_joins(work.entries);
  if (!is_joined && column_groups(work) > 1) return 0;
  const int sharing = is_joined ? joined_splits(work) : kDownWarps;
  const int warps = is_joined ? work.entries.count * sharing : kDownWarps;
  const int width = (work.down.chunks + sharing - 1) / sharing * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
  return staged_bytes(parts_for(work.entries.tokens) * rows_to_stage(work), width, warps);
}

}  // namespace

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
    work.staged_bytes =
        staged_bytes(work.parts * work.staged_rows, (work.down.chunks + splits - 1) / splits * Format<kType>::kChunk, warps);
    launch(work.staged_bytes > 0 ? down_joined<kType, true> : down_joined<kType, false>,
           {.grid = dim3(blocks_for(work.down.out, 16)),
            .threads = 32 * warps,
            .shared_bytes = warps * (bytes_per_warp<kType, 1>() + work.staged_bytes)},
           cuda.state().stream, true, work, splits, weights, y);
  });
}

}  // namespace moetune::cuda
