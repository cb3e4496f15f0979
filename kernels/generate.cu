// One thread makes 16 bytes of the matrix, wherever they lie: a piece of a row, or a lane's share of a tile's
// chunk (tile_layout.h). Start at run(); Piece says which elements a thread has, pack() what becomes of them.
#include <stdexcept>
#include <string>

#include "kernels/cuda/generated.cuh"
#include "kernels/number_convert.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

using cuda::GeneratedPart;

constexpr int kThreads = 256;
constexpr std::int64_t kFp8Block = 128;
constexpr unsigned kAll = 0xFFFFFFFFU;

__host__ __device__ constexpr int bits_of(NumberType type) {
  switch (type) {
    case NumberType::f32:
      return 32;
    case NumberType::f16:
    case NumberType::bf16:
      return 16;
    case NumberType::fp8:
    case NumberType::int8:
      return 8;
    default:
      return 4;
  }
}
__host__ __device__ constexpr bool is_int4(NumberType type) {
  return type == NumberType::int4 || type == NumberType::int4_g32;
}

// Where things lie: of MatrixLayout for rows, of TileLayout for tiles.
struct Places {
  std::byte* y;
  std::int64_t line_bytes;  // of a row or a tile
  std::int64_t chunk_bytes;
  std::int64_t pieces;         // of a row or a tile
  std::int64_t scales_offset;  // rows: from the start of the matrix; tiles, int8: from the start of the tile
  std::int64_t scales_per_row;
};

// The elements of one thread, as runs of eight neighbouring columns (four for f32).
template <NumberType type, Packing packing>
struct Piece {
  static constexpr int kElements = 128 / bits_of(type);
  static constexpr int kRun = kElements < 8 ? kElements : 8;
  static constexpr int kRuns = kElements / kRun;
  static constexpr std::int64_t kChunk = 512 / bits_of(type);  // columns of a chunk, tiles only

  std::int64_t line;  // row or tile
  std::int64_t piece;

  __device__ std::int64_t chunk() const { return piece / 64; }
  __device__ int lane() const { return static_cast<int>(piece % 32); }
  __device__ int tile_row() const { return lane() / 4 + static_cast<int>(piece % 64 / 32) * 8; }
  __device__ std::int64_t row() const {
    return packing == Packing::rows ? line : line * kTileRows + tile_row();
  }
  __device__ std::int64_t column(int run) const {
    if constexpr (packing == Packing::rows) return piece * kElements + run * kRun;
    const int t = lane() % 4;
    if constexpr (bits_of(type) == 4) return chunk() * kChunk + 32 * run + 8 * t;
    return chunk() * kChunk + (kRuns * t + run) * kRun;
  }
  __device__ std::int64_t bytes_before(const Places& places) const {
    if constexpr (packing == Packing::rows) return line * places.line_bytes + piece * 16;
    return line * places.line_bytes + chunk() * places.chunk_bytes + piece % 64 * 16;
  }
  __device__ std::byte* chunk_scales(const Places& places) const {
    return places.y + line * places.line_bytes + chunk() * places.chunk_bytes + 1024;
  }
};

__device__ __forceinline__ float largest_of_quad(float largest) {
  largest = fmaxf(largest, __shfl_xor_sync(kAll, largest, 1));
  return fmaxf(largest, __shfl_xor_sync(kAll, largest, 2));
}

// codes: four bits each, in the order of the elements of a Piece.
template <Packing packing>
__device__ __forceinline__ uint4 nibbles_packed(const std::uint32_t (&codes)[32]) {
  std::uint32_t words[4] = {0, 0, 0, 0};
  if constexpr (packing == Packing::tiles) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int at = i % 8 / 2 + i % 2 * 4;  // elements 0, 2, 4, 6 in the low half-word, 1, 3, 5, 7 above
      words[i / 8] |= codes[i] << (4 * at);
    }
  } else {
#pragma unroll
    for (int i = 0; i < 32; ++i) words[i % 16 / 4] |= codes[i] << (i % 4 * 8 + i / 16 * 4);
  }
  return {words[0], words[1], words[2], words[3]};
}

// Element groups that share a scale, in a thread's own terms: group of run r.
template <NumberType type, Packing packing>
struct Groups {
  // int4: the four threads of a quad share one. 32 wide: in tiles each run with the quad's; in rows a thread's
  // own.
  static constexpr int kCount = type == NumberType::int4 || packing == Packing::rows ? 1 : 4;
  static constexpr bool kSharedByQuad = type == NumberType::int4 || packing == Packing::tiles;
  __device__ static int of(int run) { return kCount == 1 ? 0 : run; }
};

template <NumberType type, Packing packing>
__device__ uint4 packed_nibbles(const GeneratedPart& part, const Places& places,
                                const Piece<type, packing>& piece, const int (&draws)[32]) {
  using Group = Groups<type, packing>;
  float largest[Group::kCount] = {};
#pragma unroll
  for (int i = 0; i < 32; ++i)
    largest[Group::of(i / 8)] = fmaxf(largest[Group::of(i / 8)], fabsf(cuda::number_of(part, draws[i])));
  std::uint32_t scale_bits[Group::kCount];
  float scale[Group::kCount];
#pragma unroll
  for (int g = 0; g < Group::kCount; ++g) {
    if constexpr (Group::kSharedByQuad) largest[g] = largest_of_quad(largest[g]);
    if constexpr (is_int4(type)) {
      scale_bits[g] = cuda::int4_scale(largest[g]);
      scale[g] = __half2float(__ushort_as_half(static_cast<std::uint16_t>(scale_bits[g])));
    } else {
      scale_bits[g] = cuda::quantized_fp4_scale(largest[g]);
      scale[g] = cuda::e8m0_value(scale_bits[g]);
    }
  }
  const bool is_shipped = part.shipped == type;
  if (!is_int4(type) && is_shipped) {
#pragma unroll
    for (int g = 0; g < Group::kCount; ++g) {
      const std::int64_t first = packing == Packing::rows ? piece.column(0) : piece.column(g) / 32 * 32;
      scale_bits[g] = piece.row() < part.out && first < part.in ? __float_as_uint(part.fp4_scale) >> 23 : 0U;
    }
  }
  std::uint32_t codes[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const float value = cuda::number_of(part, draws[i]);
    const float of_group = scale[Group::of(i / 8)];
    if constexpr (is_int4(type))
      codes[i] = static_cast<std::uint32_t>(cuda::rounded(value, of_group, cuda::kMostInt4) + 8);
    else
      codes[i] = is_shipped ? cuda::shipped_fp4_code(part, draws[i]) : cuda::fp4_code(__fdiv_rn(value, of_group));
  }
  const int t = static_cast<int>(piece.piece % 4);
#pragma unroll
  for (int g = 0; g < Group::kCount; ++g) {
    std::int64_t index = 0;
    bool is_mine = (t == 0 || !Group::kSharedByQuad) && piece.piece < places.pieces;
    std::byte* scales = nullptr;
    if constexpr (packing == Packing::rows) {
      const std::int64_t group = type == NumberType::int4 ? piece.piece / 4 : piece.piece;
      is_mine = is_mine && group < places.scales_per_row;
      index = piece.line * places.scales_per_row + group;
      scales = places.y + places.scales_offset;
    } else {
      index = g * kTileRows + piece.tile_row();
      scales = piece.chunk_scales(places);
    }
    if (!is_mine) continue;
    if constexpr (is_int4(type))
      reinterpret_cast<std::uint16_t*>(scales)[index] = static_cast<std::uint16_t>(scale_bits[g]);
    else
      reinterpret_cast<std::uint8_t*>(scales)[index] = static_cast<std::uint8_t>(scale_bits[g]);
  }
  return nibbles_packed<packing>(codes);
}

// largest: of every row for int8, of every block for fp8 that is quantized.
template <NumberType type, Packing packing>
__device__ uint4 packed_bytes(const GeneratedPart& part, const Places& places,
                              const Piece<type, packing>& piece, const int (&draws)[16], const float* largest) {
  const std::int64_t row = piece.row();
  const bool is_shipped = part.shipped == type;
  float scale = 0.0F;
  if constexpr (type == NumberType::int8) {
    if (row < part.out) scale = __fdiv_rn(largest[row], cuda::kMostInt8);
    if (packing == Packing::rows && piece.piece == 0)
      reinterpret_cast<float*>(places.y + places.scales_offset)[row] = scale;
    if (packing == Packing::tiles && piece.chunk() == 0 && piece.lane() % 4 == 0)
      reinterpret_cast<float*>(places.y + piece.line * places.line_bytes +
                               places.scales_offset)[piece.tile_row()] = scale;
  } else {
    // All rows of a tile lie in one block; the last ones may lie beyond the matrix.
    const std::int64_t first_row = packing == Packing::rows ? row : piece.line * kTileRows;
    const std::int64_t block = piece.column(0) / kFp8Block;
    const std::int64_t blocks = (part.in + kFp8Block - 1) / kFp8Block;
    if (is_shipped)
      scale = part.fp8_scale;
    else if (block < blocks)
      scale = __fdiv_rn(largest[first_row / kFp8Block * blocks + block], cuda::kMostFp8);
    if (packing == Packing::rows && piece.piece % 8 == 0 && block < blocks)
      reinterpret_cast<float*>(places.y + places.scales_offset)[row * places.scales_per_row + block] = scale;
    if (packing == Packing::tiles && piece.piece % 64 == 0)
      *reinterpret_cast<uint4*>(piece.chunk_scales(places)) = {__float_as_uint(scale), 0, 0, 0};
  }
  std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    std::uint32_t code = 0;
    if constexpr (type == NumberType::int8)
      code = static_cast<std::uint32_t>(cuda::rounded(cuda::number_of(part, draws[i]), scale, cuda::kMostInt8)) & 0xFFU;
    else if (is_shipped)
      code = cuda::shipped_fp8_code(draws[i]);
    else
      code = scale == 0.0F ? 0U : cuda::fp8_code(__fdiv_rn(cuda::number_of(part, draws[i]), scale));
    words[i / 4] |= code << (i % 4 * 8);
  }
  return {words[0], words[1], words[2], words[3]};
}

template <NumberType type>
__device__ std::uint32_t sixteen_bits(float value) {
  if constexpr (type == NumberType::f16) return __half_as_ushort(__float2half_rn(value));
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

template <NumberType type, Packing packing>
__global__ void __launch_bounds__(kThreads)
    generate(GeneratedPart part, Places places, const float* largest) {
  using Mine = Piece<type, packing>;
  cuda::wait_for_previous();
  const Mine piece{static_cast<std::int64_t>(blockIdx.x), std::int64_t{blockIdx.y} * blockDim.x + threadIdx.x};
  int draws[Mine::kElements];
#pragma unroll
  for (int run = 0; run < Mine::kRuns; ++run)
    cuda::take_draws<Mine::kRun>(part, piece.row(), piece.column(run),
                                 piece.piece < places.pieces ? part.in : 0, draws + run * Mine::kRun);
  uint4 result;
  if constexpr (bits_of(type) == 4) {
    result = packed_nibbles(part, places, piece, draws);  // threads beyond the last piece too: quads exchange
    if (piece.piece >= places.pieces) return;
  } else {
    if (piece.piece >= places.pieces) return;
    if constexpr (bits_of(type) == 8) {
      result = packed_bytes(part, places, piece, draws, largest);
    } else {
      std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int i = 0; i < Mine::kElements; ++i) {
        const float value = cuda::number_of(part, draws[i]);
        if constexpr (type == NumberType::f32)
          words[i] = __float_as_uint(value);
        else
          words[i / 2] |= sixteen_bits<type>(value) << (i % 2 * 16);
      }
      result = {words[0], words[1], words[2], words[3]};
    }
  }
  *reinterpret_cast<uint4*>(places.y + piece.bytes_before(places)) = result;
}

// Largest magnitude of rows x columns from (row, column) of the part on, over the whole block of threads.
__device__ float largest_of(const GeneratedPart& part, std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns, std::int64_t end) {
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
  const float most = largest_of(part, std::int64_t{blockIdx.x} * kFp8Block, kFp8Block, column, kFp8Block, end);
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
    auto* largest = static_cast<float*>(cuda.state().scratch(static_cast<std::size_t>(part.out) * sizeof(float)));
    GeneratedPart whole = part;
    whole.first_column = 0;
    whole.in = op.in;
    cuda::launch(largest_of_rows, shape_of(part.out, 1, kThreads), cuda.state().stream, false, whole, largest);
    return largest;
  }
  if (op.layout.type != NumberType::fp8 || op.source.shipped == NumberType::fp8) return nullptr;
  const std::int64_t bands = (part.out + kFp8Block - 1) / kFp8Block;
  const std::int64_t blocks = (part.in + kFp8Block - 1) / kFp8Block;
  auto* largest =
      static_cast<float*>(cuda.state().scratch(static_cast<std::size_t>(bands * blocks) * sizeof(float)));
  cuda::launch(largest_of_blocks, shape_of(bands, blocks, kThreads), cuda.state().stream, false, part, largest);
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
    CUDA_TRY(cudaMemsetAsync(y + used, 0, static_cast<std::size_t>(layout.bytes - used), cuda.state().stream));
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
