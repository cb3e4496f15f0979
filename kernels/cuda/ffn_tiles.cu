#include "kernels/cuda/ffn_tiles.cuh"

#include <algorithm>

#include "kernels/cuda/ffn_parts.cuh"

namespace moetune::cuda {
namespace {

constexpr int kMostGateWarps = 8;

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
  auto* staged =
      reinterpret_cast<unsigned char*>(blocks + blockDim.x / 32 * 128 * NT) + warp * work.staged_bytes;
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
      stream.finish(
          sums, StagedColumns<type>(staged, lane / 4, lane / 4 < work.parts * count, first, each * kChunk));
    } else {
      stream.finish(sums, GlobalColumns<type, NT>([&](int n) -> const __nv_bfloat16* {
                      const int index = 8 * n + lane / 4;
                      return base + index < entry.count
                                 ? work.x16 + std::int64_t{token_of(index)} * tiles.chunks * kChunk
                                 : nullptr;
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
      gate *= row_scale<type>(work.gate.data + entry.slot_offset + blockIdx.x * work.gate.tile_bytes,
                              work.gate, row);
      up *= row_scale<type>(work.up.data + entry.slot_offset + blockIdx.x * work.up.tile_bytes, work.up, row);
      // Rows beyond inner are zeros in the tile, so the padding of activated becomes zero.
      work.put_activated(entry.pair(index), static_cast<int>(blockIdx.x) * 16 + row,
                         gate / (1.0F + __expf(-gate)) * up);
    }
    __syncthreads();
  }
}

// How many warps share a tile of gate, and as many one of up. A warp costs some hundred instructions before
// its first product: no more of them than keep the multiprocessors busy where decoding needs most of the
// instructions (4 bits), and never for fewer than four chunks.
int gate_sharing(Cuda& cuda, NumberType type, const FfnWork& work) {
  constexpr int kMost = kMostGateWarps / 2;
  if (TileLayout::of(type, 1, 1).chunk < 128) return std::clamp(work.gate.chunks / 8, 1, kMost);
  constexpr int kWarpsPerMultiprocessor = 16;
  const auto blocks = static_cast<int>(work.activated_stride / 16) * work.entries.count;
  return std::clamp(kWarpsPerMultiprocessor * cuda.state().multiprocessors / (2 * blocks), 1,
                    std::clamp(work.gate.chunks / 4, 1, kMost));
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

void run_gate_up(Cuda& cuda, NumberType type, FfnWork work) {
  const int sharing = gate_sharing(cuda, type, work);
  const int warps = 2 * sharing;
  with_shape(type, work, work.gate.chunks, sharing, warps, [&](auto constant, auto groups, auto is_staged) {
    constexpr NumberType kType = decltype(constant)::value;
    constexpr int kGroups = decltype(groups)::value;
    if (!is_staged)
      to_bf16_rows(cuda, work.x, work.entries.tokens, work.gate.in, work.gate.chunks * Format<kType>::kChunk,
                   work.x16);
    launch(gate_up<kType, kGroups, is_staged>,
           {.grid = dim3(static_cast<unsigned>(work.activated_stride / 16),
                         static_cast<unsigned>(work.entries.count)),
            .threads = 32 * warps,
            .shared_bytes = warps * (bytes_per_warp<kType, kGroups>() + work.staged_bytes)},
           cuda.state().stream, true, work);
  });
}

}  // namespace moetune::cuda
