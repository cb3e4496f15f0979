// One thread makes 16 bytes of the matrix (cuda/generated_piece.cuh); scales that look further than a
// thread's neighbours are found first. Start at run().
#include <stdexcept>
#include <string>

#include "kernels/cuda/generated_piece.cuh"
#include "kernels/number_convert.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

using cuda::GeneratedPart;
using cuda::kFp8Block;
using cuda::Places;

constexpr int kThreads = 256;

template <NumberType type, Packing packing>
__global__ void __launch_bounds__(kThreads)
    generate(GeneratedPart part, Places places, const float* largest) {
  using Mine = cuda::Piece<type, packing>;
  cuda::wait_for_previous();
  const Mine piece{static_cast<std::int64_t>(blockIdx.x),
                   std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x};
  int draws[Mine::kElements];
#pragma unroll
  for (int run = 0; run < Mine::kRuns; ++run)
    cuda::take_draws<Mine::kRun>(part, piece.row(), piece.column(run),
                                 piece.piece < places.pieces ? part.in : 0, draws + run * Mine::kRun);
  uint4 result;
  if constexpr (cuda::bits_of(type) == 4) {
    result = cuda::packed_nibbles(part, places, piece,
                                  draws);  // threads beyond the last piece too: quads exchange
    if (piece.piece >= places.pieces) return;
  } else {
    if (piece.piece >= places.pieces) return;
    if constexpr (cuda::bits_of(type) == 8) {
      result = cuda::packed_bytes(part, places, piece, draws, largest);
    } else {
      std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < Mine::kElements; ++i) {
        const float value = cuda::number_of(part, draws[i]);
        if constexpr (type == NumberType::f32)
          words[i] = __float_as_uint(value);
        else
          words[i / 2] |= cuda::sixteen_bits<type>(value) << (i % 2 * 16);
      }
      result = {words[0], words[1], words[2], words[3]};
    }
  }
  *reinterpret_cast<uint4*>(places.y + piece.bytes_before(places)) = result;
}

// Largest magnitude of rows x columns from (row, column) of the part on, over the whole block of threads.
__device__ float largest_of(const GeneratedPart& part, std::int64_t row, std::int64_t rows,
                            std::int64_t column, std::int64_t columns, std::int64_t end) {
  __shared__ float found[kThreads / 32];
  const std::int64_t per_row = (columns + 7) / 8;
  float most = 0.0F;
  for (std::int64_t i = threadIdx.x; i < rows * per_row; i += kThreads) {
    int draws[8];
    cuda::take_draws<8>(part, row + i / per_row, column + i % per_row * 8, end, draws);
#pragma unroll
    for (int draw : draws) most = fmaxf(most, fabsf(cuda::number_of(part, draw)));
  }
  most = cuda::warp_max(most);
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = most;
  __syncthreads();
  for (float other : found) most = fmaxf(most, other);
  return most;
}

// whole: the part with all columns of the matrix.
__global__ void __launch_bounds__(kThreads) largest_of_rows(GeneratedPart whole, float* largest) {
  cuda::wait_for_previous();
  const float most = largest_of(whole, blockIdx.x, 1, 0, whole.in, whole.in);
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

__global__ void __launch_bounds__(kThreads) largest_of_blocks(GeneratedPart part, float* largest) {
  cuda::wait_for_previous();
  const std::int64_t column = std::int64_t{blockIdx.y} * kFp8Block;
  const std::int64_t end = min(part.in, column + kFp8Block);
  const float most =
      largest_of(part, std::int64_t{blockIdx.x} * kFp8Block, kFp8Block, column, kFp8Block, end);
  if (threadIdx.x == 0) largest[std::int64_t{blockIdx.x} * gridDim.y + blockIdx.y] = most;
}

GeneratedPart part_of(const Generate& op) {
  return {.seed = op.source.seed,
          .layer = op.source.layer,
          .tensor = op.source.tensor,
          .step = op.source.step(),
          .fp8_scale = shipped_fp8_scale(op.source),
          .fp4_scale = f32_from_e8m0(shipped_mxfp4_scale(op.source)),
          .shipped = op.source.shipped,
          .first_row = op.first_row,
          .first_column = op.first_column,
          .out = op.layout.out,
          .in = op.layout.in};
}

cuda::LaunchShape shape_of(std::int64_t rows, std::int64_t columns, int threads) {
  return {.grid = dim3(static_cast<unsigned>(rows), static_cast<unsigned>(columns)), .threads = threads};
}

// Scales that look at more than a thread's neighbours are found first, in scratch memory.
const float* find_largest(Cuda& cuda, const Generate& op) {
  const GeneratedPart part = part_of(op);
  if (op.layout.type == NumberType::int8) {
    auto* largest =
        static_cast<float*>(cuda.state().scratch(static_cast<std::size_t>(part.out) * sizeof(float)));
    GeneratedPart whole = part;
    whole.first_column = 0;
    whole.in = op.in;
    cuda::launch(largest_of_rows, shape_of(part.out, 1, kThreads), cuda.state().stream, false, whole,
                 largest);
    return largest;
  }
  if (op.layout.type != NumberType::fp8 || op.source.shipped == NumberType::fp8) return nullptr;
  const std::int64_t bands = (part.out + kFp8Block - 1) / kFp8Block;
  const std::int64_t blocks = (part.in + kFp8Block - 1) / kFp8Block;
  auto* largest =
      static_cast<float*>(cuda.state().scratch(static_cast<std::size_t>(bands * blocks) * sizeof(float)));
  cuda::launch(largest_of_blocks, shape_of(bands, blocks, kThreads), cuda.state().stream, false, part,
               largest);
  return largest;
}

template <NumberType type, Packing packing>
void launch_generate(Cuda& cuda, const Generate& op, const Places& places, std::int64_t lines) {
  const std::int64_t padded = (places.pieces + 31) / 32 * 32;  // whole warps, whole quads
  const int threads = static_cast<int>(padded < kThreads ? padded : kThreads);
  cuda::launch(generate<type, packing>, shape_of(lines, (padded + threads - 1) / threads, threads),
               cuda.state().stream, false, part_of(op), places, find_largest(cuda, op));
}

template <NumberType type>
void generate_as(Cuda& cuda, const Generate& op) {
  auto* const y = static_cast<std::byte*>(op.y);
  const MatrixLayout& layout = op.layout;
  std::int64_t used = layout.scales_offset + layout.out * layout.scales_per_row * layout.scale_bytes;
  if (layout.packing == Packing::rows) {
    launch_generate<type, Packing::rows>(cuda, op,
                                         {.y = y,
                                          .line_bytes = layout.row_bytes,
                                          .chunk_bytes = 0,
                                          .pieces = layout.row_bytes / 16,
                                          .scales_offset = layout.scales_offset,
                                          .scales_per_row = layout.scales_per_row},
                                         layout.out);
  } else if constexpr (type != NumberType::f32) {
    const TileLayout tiles = TileLayout::of(type, layout.out, layout.in);
    used = tiles.tiles * tiles.tile_bytes;
    launch_generate<type, Packing::tiles>(cuda, op,
                                          {.y = y,
                                           .line_bytes = tiles.tile_bytes,
                                           .chunk_bytes = tiles.chunk_bytes,
                                           .pieces = tiles.chunks * 64,
                                           .scales_offset = tiles.chunks * tiles.chunk_bytes,
                                           .scales_per_row = 0},
                                          tiles.tiles);
  }
  if (used < layout.bytes)
    CUDA_TRY(
        cudaMemsetAsync(y + used, 0, static_cast<std::size_t>(layout.bytes - used), cuda.state().stream));
}

bool is_shipped_type(NumberType type) {
  return type == NumberType::f32 || type == NumberType::f16 || type == NumberType::bf16 ||
         type == NumberType::fp8 || type == NumberType::mxfp4;
}

}  // namespace

void run(Cuda& cuda, const Generate& op) {
  if (!is_shipped_type(op.source.shipped))
    throw std::invalid_argument("no model ships in " + std::string(name_of(op.source.shipped)) +
                                " (accepted: f32, f16, bf16, fp8, mxfp4)");
  if (op.layout.out == 0 || op.layout.in == 0) return;
  switch (op.layout.type) {
    case NumberType::f32:
      return generate_as<NumberType::f32>(cuda, op);
    case NumberType::f16:
      return generate_as<NumberType::f16>(cuda, op);
    case NumberType::bf16:
      return generate_as<NumberType::bf16>(cuda, op);
    case NumberType::fp8:
      return generate_as<NumberType::fp8>(cuda, op);
    case NumberType::int8:
      return generate_as<NumberType::int8>(cuda, op);
    case NumberType::int4:
      return generate_as<NumberType::int4>(cuda, op);
    case NumberType::int4_g32:
      return generate_as<NumberType::int4_g32>(cuda, op);
    case NumberType::mxfp4:
      return generate_as<NumberType::mxfp4>(cuda, op);
    case NumberType::i32:
      break;
  }
  throw std::invalid_argument("no matrix of " + std::string(name_of(op.layout.type)) + " can be made");
}

}  // namespace moetune
