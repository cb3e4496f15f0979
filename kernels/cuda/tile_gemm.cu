#include "kernels/cuda/tile_gemm.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/sliced_gemm.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

// Few columns leave room for deeper rings: more of the weights are on their way before the activations are
// there.
template <int NT>
inline constexpr int kStages = NT == 1 ? 12 : 8;
constexpr int kMostWarps = 8;

// One block a tile: its warps share the chunks, then add up in the order of the warps. kIsStaged: x is f32,
// up to eight rows that are staged, times the norm's weight where there is one (the products are scaled by 1
// / rms when they are done, so that x is read once); else x16 are bf16 rows.
template <NumberType type, int NT, bool kIsStaged>
__global__ void __launch_bounds__(32 * kMostWarps)
    tiles_by_rows(TileGemm op, const __nv_bfloat16* x16, int staged_bytes) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = TileStream<type, NT, kStages<NT>>;
  __shared__ float squares[kMostWarps][kStagedRows];  // of each warp's part of each row
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
  constexpr int kChunk = Format<type>::kChunk;
  Stream stream;
  stream.start(ring, tile, first, end);
  let_next_start();
  wait_for_previous();
  const int parts = kIsStaged ? parts_for(op.tokens) : 1;
  // What the sum is added to is asked for now: at the end it would be waited for.
  const auto y_of = [&](int i) -> float* {
    const int row = tile_of_part * 16 + i % 16;
    const int token = base + i / 16;
    return row < part.out && token < op.tokens ? part.y.row(token) + row : nullptr;
  };
  const auto thread = static_cast<int>(threadIdx.x);
  const float* first_y = op.accumulates ? y_of(thread) : nullptr;
  const float before = first_y != nullptr ? *first_y : 0.0F;
  float sums[NT][4] = {};
  if constexpr (kIsStaged) {
    unsigned char* staged = shared + warps * Stream::kRingBytes + warp * staged_bytes;
    const int part_width = each * kChunk;
    const bool is_aligned = op.in % 4 == 0 && op.x.stride % 4 == 0;
    float square[kStagedRows] = {};
    struct Read {
      float4 x;
      float4 weight;
    };
    stage_columns(
        staged, op.tokens, parts, first * kChunk, part_width,
        [&](int token) { return static_cast<const float*>(op.x.row(token)); },
        [&](const float* row, int column) {
          return Read{four_of(row, column, op.in, is_aligned),
                      op.norm != nullptr ? four_of(op.norm, column, op.in, is_aligned)
                                         : float4{1.0F, 1.0F, 1.0F, 1.0F}};
        },
        [&](int token, const Read& read) {
          const float4& x = read.x;
#pragma unroll
          for (int row = 0; row < kStagedRows; ++row)  // a register each: no index but a constant one
            if (row == token) square[row] += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
          return float4{x.x * read.weight.x, x.y * read.weight.y, x.z * read.weight.z, x.w * read.weight.w};
        });
    if (op.norm != nullptr)
#pragma unroll
      for (int token = 0; token < kStagedRows; ++token) {
        if (token >= op.tokens) break;
        const float sum = warp_sum(square[token]);
        if (lane == 0) squares[warp][token] = sum;
      }
    stream.finish(sums,
                  StagedColumns<type>(staged, lane / 4, lane / 4 < parts * op.tokens, first, part_width));
  } else {
    stream.finish(sums, GlobalColumns<type, NT>([&](int n) -> const __nv_bfloat16* {
                    const int token = base + 8 * n + lane / 4;
                    return token < op.tokens ? x16 + std::int64_t{token} * op.chunks * kChunk : nullptr;
                  }));
  }
  __syncthreads();  // the rings are free: the sums take their place
  auto* blocks = reinterpret_cast<float*>(shared);
  store_sums(blocks + warp * 128 * NT, sums);
  __syncthreads();
  for (int i = thread; i < 128 * NT; i += static_cast<int>(blockDim.x)) {
    float* to = y_of(i);
    if (to == nullptr) continue;
    const int token = base + i / 16;
    float sum = 0.0F;
    for (int from = 0; from < warps; ++from)
      for (int column = i / 16; column < i / 16 + parts * op.tokens; column += op.tokens)
        sum += blocks[from * 128 * NT + i % 16 * (8 * NT) + column];
    if constexpr (type == NumberType::int8)
      sum *= reinterpret_cast<const float*>(tile + std::int64_t{op.chunks} * Stream::kStageBytes)[i % 16];
    if constexpr (kIsStaged)
      if (op.norm != nullptr) {
        float square = 0.0F;
        for (int other = 0; other < warps; ++other) square += squares[other][token];
        sum *= rsqrtf(square / static_cast<float>(op.in) + op.eps);
      }
    if (part.bias != nullptr) sum += part.bias[tile_of_part * 16 + i % 16];
    if (op.accumulates) sum += i == thread ? before : *to;
    *to = sum;
  }
}

// Eight warps a tile where there are few tiles, so that the whole card has bytes under way; else four, so
// that all blocks are there at once: whoever has his place has his weights on their way before the
// activations are ready.
int warps_of(Cuda& cuda, const TileGemm& op) {
  constexpr int kForMostWarps = 128 * 1024;  // their rings and rows
  const bool takes_most =
      op.tiles <= 2 * cuda.state().multiprocessors && most_shared_bytes(cuda) >= kForMostWarps;
  const int wanted = takes_most ? kMostWarps : kMostWarps / 2;
  return std::clamp(op.chunks / 4, 1, wanted);
}

template <NumberType type, int NT, bool kIsStaged>
void launch_tiles(Cuda& cuda, const TileGemm& op, int warps, const __nv_bfloat16* x16, int staged) {
  using Stream = TileStream<type, NT, kStages<NT>>;
  launch(tiles_by_rows<type, NT, kIsStaged>,
         {.grid = dim3(static_cast<unsigned>(op.tiles), blocks_for(op.tokens, 8 * NT)),
          .threads = 32 * warps,
          .shared_bytes = warps * (std::max(Stream::kRingBytes, NT * 512) + staged)},
         cuda.state().stream, true, op, x16, staged);
}

template <NumberType type>
int staged_bytes_of(const TileGemm& op, int warps) {
  return staged_bytes(parts_for(op.tokens) * op.tokens,
                      (op.chunks + warps - 1) / warps * Format<type>::kChunk, warps);
}

template <NumberType type>
void run_type(Cuda& cuda, const TileGemm& op) {
  const int width = op.chunks * Format<type>::kChunk;
  const int warps = warps_of(cuda, op);
  if (is_sliced(op)) return sliced_gemm(cuda, type, op);
  if (const int staged = staged_bytes_of<type>(op, warps); staged > 0)
    return launch_tiles<type, 1, true>(cuda, op, warps, nullptr, staged);
  if (op.norm != nullptr) throw std::logic_error("norm_fits() was not asked");
  auto* x16 = static_cast<__nv_bfloat16*>(cuda.state().scratch(
      static_cast<std::size_t>(op.tokens) * static_cast<std::size_t>(width) * sizeof(__nv_bfloat16)));
  to_bf16_rows(cuda, op.x, op.tokens, op.in, width, x16);
  if (op.tokens <= 8)
    launch_tiles<type, 1, false>(cuda, op, warps, x16, 0);
  else
    launch_tiles<type, 4, false>(cuda, op, warps, x16, 0);
}

}  // namespace

int most_shared_bytes(Cuda& cuda) {
  int bytes = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda.state().ordinal));
  return bytes;
}

bool norm_fits(Cuda& cuda, NumberType type, const TileGemm& op) {
  if (is_sliced(op)) return true;
  bool fits = false;
  with_tile_type(type, [&](auto constant) {
    fits = staged_bytes_of<decltype(constant)::value>(op, warps_of(cuda, op)) > 0;
  });
  return fits;
}

void tile_gemm(Cuda& cuda, NumberType type, const TileGemm& op) {
  with_tile_type(type, [&](auto constant) { run_type<decltype(constant)::value>(cuda, op); });
}

}  // namespace moetune::cuda
