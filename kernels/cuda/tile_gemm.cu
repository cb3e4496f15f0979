#include "kernels/cuda/tile_gemm.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

constexpr int kStages = 8;
constexpr int kMostWarps = 8;
constexpr int kNormTokens = 8;           // rows a fused norm can take
constexpr int kNormBytes = 48 * 1024;    // of shared memory for them

// The normed rows as bf16, padded with zeros to whole chunks. All threads take part.
__device__ __forceinline__ void norm_rows(const TileGemm& op, __nv_bfloat16* to, int width) {
  __shared__ float squares[kMostWarps][kNormTokens];
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  for (int token = 0; token < op.tokens; ++token) {
    const float* from = op.x.row(token);
    float sum = 0.0F;
    for (int column = static_cast<int>(threadIdx.x); column < op.in; column += static_cast<int>(blockDim.x))
      sum += from[column] * from[column];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) squares[warp][token] = sum;
  }
  __syncthreads();
  for (int token = 0; token < op.tokens; ++token) {
    const float* from = op.x.row(token);
    float sum = 0.0F;
    for (int other = 0; other < warps; ++other) sum += squares[other][token];
    const float inverse = rsqrtf(sum / static_cast<float>(op.in) + op.eps);
    for (int column = static_cast<int>(threadIdx.x); column < width; column += static_cast<int>(blockDim.x))
      to[token * width + column] =
          __float2bfloat16_rn(column < op.in ? from[column] * inverse * op.norm[column] : 0.0F);
  }
  __syncthreads();
}

// One block a tile: its warps share the chunks, then add up in the order of the warps.
template <NumberType type, int NT>
__global__ void __launch_bounds__(32 * kMostWarps) tiles_by_rows(TileGemm op) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = TileStream<type, NT, kStages>;
  constexpr int kChunk = Format<type>::kChunk;
  const auto warps = static_cast<int>(blockDim.x / 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  int index = 0;
  while (index + 1 < op.parts && static_cast<int>(blockIdx.x) >= op.part[index + 1].first_tile) ++index;
  const GemmPart& part = op.part[index];
  const int tile_of_part = static_cast<int>(blockIdx.x) - part.first_tile;
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  const unsigned char* tile = part.tiles + tile_of_part * part.tile_bytes;
  const int each = (op.chunks + warps - 1) / warps;
  const int first = warp * each;
  const int end = min(op.chunks, first + each);
  const int base = static_cast<int>(blockIdx.y) * 8 * NT;
  Stream stream;
  stream.start(ring, tile, first, end);
  let_next_start();
  wait_for_previous();
  auto* normed = reinterpret_cast<__nv_bfloat16*>(shared + warps * Stream::kRingBytes);
  const int width = op.chunks * kChunk;
  if (op.norm != nullptr) norm_rows(op, normed, width);
  const float* columns[NT];
  const __nv_bfloat16* normed_columns[NT];
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int token = base + 8 * n + lane / 4;
    columns[n] = token < op.tokens && op.norm == nullptr ? op.x.row(token) : nullptr;
    normed_columns[n] = token < op.tokens && op.norm != nullptr ? normed + token * width : nullptr;
  }
  float sums[NT][4] = {};
  stream.finish(sums, [&](int n, int chunk, int i) {
    const int column = chunk * kChunk + x_offset<type>(lane % 4, i);
    return op.norm != nullptr ? eight_columns(normed_columns[n], column, op.in)
                              : eight_columns(columns[n], column, op.in);
  });
  __syncthreads();  // the rings are free: the sums take their place
  auto* blocks = reinterpret_cast<float*>(shared);
  store_sums(blocks + warp * 128 * NT, sums);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
    const int row = tile_of_part * 16 + i % 16;
    const int token = base + i / 16;
    if (row >= part.out || token >= op.tokens) continue;
    float sum = 0.0F;
    for (int from = 0; from < warps; ++from) sum += blocks[from * 128 * NT + i % 16 * (8 * NT) + i / 16];
    if constexpr (type == NumberType::int8)
      sum *= reinterpret_cast<const float*>(tile + std::int64_t{op.chunks} * Stream::kStageBytes)[i % 16];
    if (part.bias != nullptr) sum += part.bias[row];
    float& to = part.y.row(token)[row];
    to = op.accumulates ? to + sum : sum;
  }
}

template <NumberType type, int NT>
void launch_tiles(Cuda& cuda, const TileGemm& op) {
  using Stream = TileStream<type, NT, kStages>;
  // Enough warps a tile that the whole card has bytes under way, as long as each has a few chunks.
  const int warps = std::clamp(op.chunks / 4, 1, kMostWarps);
  const int normed =
      op.norm != nullptr ? op.tokens * op.chunks * Format<type>::kChunk * static_cast<int>(sizeof(__nv_bfloat16)) : 0;
  launch(tiles_by_rows<type, NT>,
         {.grid = dim3(static_cast<unsigned>(op.tiles), blocks_for(op.tokens, 8 * NT)),
          .threads = 32 * warps,
          .shared_bytes = warps * std::max(Stream::kRingBytes, NT * 512) + normed},
         cuda.state().stream, true, op);
}

}  // namespace

bool norm_fits(int tokens, int in) {
  constexpr int kWidestChunk = 128;
  const int width = (in + kWidestChunk - 1) / kWidestChunk * kWidestChunk;
  return tokens <= kNormTokens && tokens * width * static_cast<int>(sizeof(__nv_bfloat16)) <= kNormBytes;
}

void tile_gemm(Cuda& cuda, NumberType type, const TileGemm& op) {
  with_tile_type(type, [&](auto constant) {
    if (op.tokens <= 8)
      launch_tiles<decltype(constant)::value, 1>(cuda, op);
    else
      launch_tiles<decltype(constant)::value, 4>(cuda, op);
  });
}

}  // namespace moetune::cuda
