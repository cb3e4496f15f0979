#include "kernels/cuda/untile.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/prompt_gemm.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kTogether = 4;  // chunks whose loads are under way at once
constexpr int kOfWarp = 2 * kTogether;

struct TilesOfPart {
  const unsigned char* tiles;
  std::int64_t tile_bytes;
  int out;
  int first_tile;  // of all parts
  int first_row;
  const float* bias;
};
struct Work {
  TilesOfPart part[Untile::kMostParts];
  int parts;
  int chunks;
  int width;
  __nv_bfloat16* to;
  float* biases;
};

// 16 bytes of a lane's two rows: eight neighbouring columns, from x_offset(lane % 4, i) of the chunk.
template <NumberType type, int i>
__device__ __forceinline__ void store_columns(const WeightFragments<type>& weights,
                                              const float (&row_scale)[2], __nv_bfloat16* const (&rows)[2],
                                              int chunk) {
  std::uint32_t a[2][4];
  weights.template operands<i % 2, i / 2 == 1>(a);
  const int column = chunk * Format<type>::kChunk + x_offset<type>(static_cast<int>(threadIdx.x % 4), i);
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    uint4 bits = {a[0][side], a[0][2 + side], a[1][side], a[1][2 + side]};
    if constexpr (type == NumberType::int8) {
      const std::uint32_t high = pack2(row_scale[side], row_scale[side]);
      const float rest = row_scale[side] - __uint_as_float(high << 16);
      const std::uint32_t low = pack2(rest, rest);
      bits = {scaled2(bits.x, high, low), scaled2(bits.y, high, low), scaled2(bits.z, high, low),
              scaled2(bits.w, high, low)};
    }
    if (rows[side] != nullptr) *reinterpret_cast<uint4*>(rows[side] + column) = bits;
  }
}

// A block a tile and kWarps * kOfWarp of its chunks.
template <NumberType type>
__global__ void __launch_bounds__(32 * kWarps) untile_rows(const __grid_constant__ Work work) {
  using F = Format<type>;
  constexpr int kChunkBytes = TileSteps<type>::kChunkBytes;
  let_next_start();
  const auto lane = static_cast<int>(threadIdx.x % 32);
  int index = 0;
  while (index + 1 < work.parts && static_cast<int>(blockIdx.x) >= work.part[index + 1].first_tile) ++index;
  const TilesOfPart& part = work.part[index];
  const int tile_index = static_cast<int>(blockIdx.x) - part.first_tile;
  const unsigned char* tile = part.tiles + tile_index * part.tile_bytes;
  const int first = (static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x / 32)) * kOfWarp;
  const int end = min(first + kOfWarp, work.chunks);
  __nv_bfloat16* rows[2];
  float row_scale[2] = {1.0F, 1.0F};
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int row = tile_index * 16 + side * 8 + lane / 4;
    rows[side] = row < part.out ? work.to + std::int64_t{part.first_row + row} * work.width : nullptr;
    if constexpr (type == NumberType::int8)
      row_scale[side] =
          reinterpret_cast<const float*>(tile + std::int64_t{work.chunks} * kChunkBytes)[side * 8 + lane / 4];
  }
  constexpr WarpRows kRows = {{0, 0}, {0, 1}};
  bool has_waited = false;
  for (int chunk = first; chunk < end; chunk += kTogether) {
    WeightFragments<type> weights[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      weights[i].template load<0, false>(tile + std::int64_t{min(chunk + i, end - 1)} * kChunkBytes, kRows,
                                         true);
    if (!has_waited) wait_for_previous();  // weights are never written; scratch memory is
    has_waited = true;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (chunk + i >= end) break;
      store_columns<type, 0>(weights[i], row_scale, rows, chunk + i);
      if constexpr (F::kChunk >= 64) store_columns<type, 1>(weights[i], row_scale, rows, chunk + i);
      if constexpr (F::kChunk >= 128) {
        store_columns<type, 2>(weights[i], row_scale, rows, chunk + i);
        store_columns<type, 3>(weights[i], row_scale, rows, chunk + i);
      }
    }
  }
  if (!has_waited) wait_for_previous();
  if (work.biases != nullptr && blockIdx.y == 0 && threadIdx.x < 16) {
    const int row = tile_index * 16 + static_cast<int>(threadIdx.x);
    if (row < part.out) work.biases[part.first_row + row] = part.bias != nullptr ? part.bias[row] : 0.0F;
  }
}

}  // namespace

int untiled_width(const MatrixLayout& layout) {
  const TileLayout tiles = TileLayout::of(layout.type, layout.out, layout.in);
  return static_cast<int>(tiles.chunks * tiles.chunk);
}

void untile(Cuda& cuda, const Untile& op) {
  Work work{};
  work.to = op.to;
  work.biases = op.biases;
  int tiles = 0;
  for (int i = 0; i < op.parts; ++i) {
    const MatrixLayout& layout = op.part[i].layout;
    const TileLayout of = TileLayout::of(layout.type, layout.out, layout.in);
    work.part[work.parts++] = {static_cast<const unsigned char*>(op.part[i].data),
                               of.tile_bytes,
                               static_cast<int>(of.out),
                               tiles,
                               op.part[i].first_row,
                               op.part[i].bias};
    work.chunks = static_cast<int>(of.chunks);
    work.width = static_cast<int>(of.chunks * of.chunk);
    tiles += static_cast<int>(of.tiles);
  }
  with_tile_type(op.part[0].layout.type, [&](auto constant) {
    launch(untile_rows<decltype(constant)::value>,
           {.grid = dim3(static_cast<unsigned>(tiles), blocks_for(work.chunks, kWarps * kOfWarp)),
            .threads = 32 * kWarps},
           cuda.state().stream, true, work);
  });
}

}  // namespace moetune::cuda
