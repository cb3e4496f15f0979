// Tiles go to the tensor cores, rows (router, f32 weights) to one warp per output element in f32.
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/tile_stream.cuh"
#include "kernels/gemm.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

using cuda::Rows;

struct Result {
  Rows y;
  const float* bias;
  bool accumulates;

  __device__ void put(std::int64_t token, std::int64_t row, float value) const {
    if (bias != nullptr) value += bias[row];
    float& to = y.row(token)[row];
    to = accumulates ? to + value : value;
  }
};

template <class Number>
__global__ void __launch_bounds__(256) rows_gemm(Rows x, const Number* w, std::int64_t stride,
                                                 std::int64_t out, std::int64_t in, Result result) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t row = std::int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= out) return;
  const std::int64_t lane = threadIdx.x % 32;
  const Number* weights = w + row * stride;
  const float* from = x.row(blockIdx.y);
  float sum = 0.0F;
  for (std::int64_t column = lane; column < in; column += 32)
    sum += cuda::widen(weights[column]) * from[column];
  sum = cuda::warp_sum(sum);
  if (lane == 0) result.put(blockIdx.y, row, sum);
}

void run_rows(Cuda& cuda, const Gemm& op, const Result& result) {
  const MatrixLayout& layout = op.w.layout;
  cuda::with_float_type(layout.type, "a weight matrix in rows", [&](auto number) {
    using Number = decltype(number);
    cuda::launch(
        rows_gemm<Number>,
        {.grid = dim3(cuda::blocks_for(layout.out, 8), static_cast<unsigned>(op.x.dim(0))), .threads = 256},
        cuda.state().stream, true, cuda::rows_of(op.x), static_cast<const Number*>(op.w.data),
        layout.row_bytes / static_cast<std::int64_t>(sizeof(Number)), layout.out, layout.in, result);
  });
}

struct Tiles {
  const unsigned char* data;
  std::int64_t tile_bytes;
  int chunks;
  int out;
  int in;
};

constexpr int kStages = 8;

// One block a tile: its warps share the chunks, then add up in the order of the warps.
template <NumberType type, int NT>
__global__ void __launch_bounds__(512) tile_gemm(Rows x, int tokens, Tiles w, Result result) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = cuda::TileStream<type, NT, kStages>;
  const auto warps = static_cast<int>(blockDim.x / 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  const unsigned char* tile = w.data + blockIdx.x * w.tile_bytes;
  const int each = (w.chunks + warps - 1) / warps;
  const int first = warp * each;
  const int end = min(w.chunks, first + each);
  const int base = static_cast<int>(blockIdx.y) * 8 * NT;
  Stream stream;
  stream.start(ring, tile, first, end);
  cuda::let_next_start();
  cuda::wait_for_previous();
  const float* columns[NT];
#pragma unroll
  for (int n = 0; n < NT; ++n) {
    const int token = base + 8 * n + lane / 4;
    columns[n] = token < tokens ? x.row(token) : nullptr;
  }
  float sums[NT][4] = {};
  stream.finish(sums, [&](int n, int chunk, int i) {
    return cuda::eight_columns(columns[n],
                               chunk * cuda::Format<type>::kChunk + cuda::x_offset<type>(lane % 4, i), w.in);
  });
  __syncthreads();  // the rings are free: the sums take their place
  auto* blocks = reinterpret_cast<float*>(shared);
  cuda::store_sums(blocks + warp * 128 * NT, sums);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
    const int row = static_cast<int>(blockIdx.x) * 16 + i % 16;
    const int token = base + i / 16;
    if (row >= w.out || token >= tokens) continue;
    float sum = 0.0F;
    for (int from = 0; from < warps; ++from) sum += blocks[from * 128 * NT + i % 16 * (8 * NT) + i / 16];
    if constexpr (type == NumberType::int8)
      sum *= reinterpret_cast<const float*>(tile + static_cast<std::int64_t>(w.chunks) *
                                                       Stream::kStageBytes)[i % 16];
    result.put(token, row, sum);
  }
}

template <NumberType type, int NT>
void launch_tiles(Cuda& cuda, const Gemm& op, const TileLayout& layout, const Result& result) {
  using Stream = cuda::TileStream<type, NT, kStages>;
  const auto tokens = static_cast<int>(op.x.dim(0));
  // Enough warps a tile that the whole card has bytes under way, as long as each has a few chunks.
  const auto warps =
      static_cast<int>(std::min<std::int64_t>(8, std::max<std::int64_t>(1, layout.chunks / 4)));
  const Tiles tiles{static_cast<const unsigned char*>(op.w.data), layout.tile_bytes,
                    static_cast<int>(layout.chunks), static_cast<int>(layout.out),
                    static_cast<int>(layout.in)};
  const int shared = warps * std::max(Stream::kRingBytes, NT * 512);
  cuda::launch(tile_gemm<type, NT>,
               {.grid = dim3(static_cast<unsigned>(layout.tiles), cuda::blocks_for(tokens, 8 * NT)),
                .threads = 32 * warps,
                .shared_bytes = shared},
               cuda.state().stream, true, cuda::rows_of(op.x), tokens, tiles, result);
}

}  // namespace

void run(Cuda& cuda, const Gemm& op) {
  const MatrixLayout& matrix = op.w.layout;
  if (op.x.dim(0) == 0 || matrix.out == 0) return;
  const Result result{cuda::rows_of(op.y), op.bias.empty() ? nullptr : op.bias.f32(), op.accumulate};
  if (matrix.packing == Packing::rows) return run_rows(cuda, op, result);
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  cuda::with_tile_type(matrix.type, [&](auto type) {
    if (op.x.dim(0) <= 8)
      launch_tiles<decltype(type)::value, 1>(cuda, op, layout, result);
    else
      launch_tiles<decltype(type)::value, 4>(cuda, op, layout, result);
  });
}

}  // namespace moetune
