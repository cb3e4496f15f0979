// PerHeadGemm: a few chunks of a tile of weights (kernels/tile_layout.h) in a warp's registers before the
// activations are ready, then eight rows of activations at a time.
#include "kernels/mla_attention.h"

#include <algorithm>

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/cuda/fragment.cuh"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

struct Heads {
  float* data;
  std::int64_t token_stride;
  std::int64_t head_stride;
  __device__ float* row(std::int64_t token, std::int64_t head) const {
    return data + token * token_stride + head * head_stride;
  }
};
Heads heads_of(const Tensor& tensor) { return {tensor.f32(), tensor.stride(0), tensor.stride(1)}; }

// Rows of any unquantized type: one warp an output element.
template <class Number>
__global__ void per_head_rows(Heads x, const Number* w, std::int64_t stride, Heads y, int out, int in) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const int row = static_cast<int>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= out) return;
  const std::int64_t head = blockIdx.y;
  const Number* weights = w + (head * out + row) * stride;
  const float* from = x.row(blockIdx.z, head);
  float sum = 0.0F;
  for (int column = lane; column < in; column += 32) sum += cuda::widen(weights[column]) * from[column];
  sum = cuda::warp_sum(sum);
  if (lane == 0) y.row(blockIdx.z, head)[row] = sum;
}

constexpr int kWarps = 4;
constexpr int kChunks = 4;    // that a warp holds at once
constexpr int kColumns = 32;  // of a chunk
constexpr int kTokens = 8;    // columns of a product
// Of a block: so many rows share the weights that it read. Few while a step is short, so that they do not
// wait in line.
int rows_of_a_block(std::int64_t tokens) { return tokens <= 64 ? 16 : 64; }
constexpr int kSplitTokens = 4;    // up to so many leave columns for what rounding to bf16 loses
constexpr int kTwiceTokens = 128;  // up to so many a second product adds it

struct PerHead {
  Heads x;
  const unsigned char* tiles;
  std::int64_t tile_bytes;
  Heads y;
  int tokens;
  int tiles_per_head;
  int in;
  int chunks;
  int warps_per_tile;  // 1, 2 or 4
  int tile_count;
  int rows_of_a_block;
};

// Eight neighbouring elements of a row; zeros beyond its end.
__device__ __forceinline__ void load_eight(float (&to)[8], const float* row, int column, int in,
                                           bool is_aligned) {
  if (is_aligned && column + 8 <= in) {
    const float4 low = *reinterpret_cast<const float4*>(row + column);
    const float4 high = *reinterpret_cast<const float4*>(row + column + 4);
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = column + i < in ? row[column + i] : 0.0F;
}

// Grid: (blocks of tiles, blocks of tokens).
template <NumberType type>
__global__ void __launch_bounds__(32 * kWarps) per_head_tiles(PerHead op) {
  using F = cuda::Format<type>;
  static_assert(F::kChunk == kColumns);
  __shared__ float sums[2][kWarps][16][kTokens];
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int tile = static_cast<int>(blockIdx.x) * (kWarps / op.warps_per_tile) + warp / op.warps_per_tile;
  const bool exists = tile < op.tile_count;
  const int each = (op.chunks + op.warps_per_tile - 1) / op.warps_per_tile;
  const int first = warp % op.warps_per_tile * each;
  const int end = exists ? min(op.chunks, first + each) : first;
  const unsigned char* chunks = op.tiles + (exists ? tile : 0) * op.tile_bytes + lane * 16;
  uint4 upper[kChunks];
  uint4 lower[kChunks];
  const auto load_weights = [&](int from) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const bool is_there = from + c < end;
      upper[c] = is_there ? *reinterpret_cast<const uint4*>(chunks + std::int64_t{from + c} * 1024) : uint4{};
      lower[c] =
          is_there ? *reinterpret_cast<const uint4*>(chunks + std::int64_t{from + c} * 1024 + 512) : uint4{};
    }
  };
  load_weights(first);
  cuda::let_next_start();
  cuda::wait_for_previous();
  const int head = tile / op.tiles_per_head;
  const int base = static_cast<int>(blockIdx.y) * op.rows_of_a_block;
  const int last = min(op.tokens, base + op.rows_of_a_block);
  const bool is_split = op.tokens <= kSplitTokens;
  const bool is_twice = !is_split && op.tokens <= kTwiceTokens;
  const bool is_aligned = op.x.token_stride % 4 == 0 && op.x.head_stride % 4 == 0 &&
                          reinterpret_cast<std::uintptr_t>(op.x.data) % 16 == 0;
  const bool is_once = first + kChunks >= end;  // the weights stay where they are
  int turn = 0;
  for (int start = base; start < last; start += kTokens, turn ^= 1) {
    // A lane's column of the products: a token, or, split, what the rounding of token - kSplitTokens lost.
    const int column = lane / 4;
    const int token = start + (is_split ? column % kSplitTokens : column);
    const bool has_token = exists && token < last;
    const float* x = op.x.row(has_token ? token : 0, exists ? head : 0);
    float part[2][4] = {};
    for (int from = first; from < end; from += kChunks) {
      if (!is_once) load_weights(from);
      float values[kChunks][8];
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
        if (has_token && from + c < end)
          load_eight(values[c], x, (from + c) * kColumns + 8 * (lane % 4), op.in, is_aligned);
        else
#pragma unroll
          for (int i = 0; i < 8; ++i) values[c][i] = 0.0F;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        std::uint32_t b[4];
        std::uint32_t lost[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          b[i] = cuda::pack2(values[c][2 * i], values[c][2 * i + 1]);
          lost[i] = cuda::pack2(values[c][2 * i] - __uint_as_float(b[i] << 16),
                                values[c][2 * i + 1] - __uint_as_float(b[i] & 0xFFFF0000U));
          if (is_split && column >= kSplitTokens) b[i] = lost[i];
        }
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          std::uint32_t a0, a1, a2, a3;
          F::pairs(upper[c], m, a0, a2);
          F::pairs(lower[c], m, a1, a3);
          cuda::mma(part[m], a0, a1, a2, a3, b[2 * m], b[2 * m + 1]);
          if (is_twice) cuda::mma(part[m], a0, a1, a2, a3, lost[2 * m], lost[2 * m + 1]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      sums[turn][warp][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = part[0][i] + part[1][i];
    __syncthreads();  // two sets of sums in turn: the next one is written while this one is read
    const int tiles_here = kWarps / op.warps_per_tile;
    for (int i = static_cast<int>(threadIdx.x); i < tiles_here * 16 * kTokens; i += 32 * kWarps) {
      const int of_tile = i / (16 * kTokens);
      const int row = i % 16;
      const int offset = i / 16 % kTokens;
      const int its_tile = static_cast<int>(blockIdx.x) * tiles_here + of_tile;
      if (its_tile >= op.tile_count || start + offset >= last || (is_split && offset >= kSplitTokens))
        continue;
      float sum = 0.0F;
      for (int w = 0; w < op.warps_per_tile; ++w) {
        const auto& from = sums[turn][of_tile * op.warps_per_tile + w][row];
        sum += is_split ? from[offset] + from[offset + kSplitTokens] : from[offset];
      }
      op.y.row(start + offset, its_tile / op.tiles_per_head)[its_tile % op.tiles_per_head * 16 + row] = sum;
    }
  }
}

template <NumberType type>
void run_tiles(Cuda& cuda, const PerHeadGemm& op) {
  const MatrixLayout& matrix = op.w.layout;
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  const std::int64_t out = op.y.dim(2);
  if (out % kTileRows != 0)
    throw std::invalid_argument("per-head matrices of " + std::to_string(out) +
                                " rows in tiles (accepted: a multiple of 16)");
  const auto chunks = static_cast<int>(layout.chunks);
  const int warps = chunks <= kChunks ? 1 : chunks <= 2 * kChunks ? 2 : 4;
  cuda::launch(per_head_tiles<type>,
               {.grid = dim3(cuda::blocks_for(layout.tiles, kWarps / warps),
                             cuda::blocks_for(op.x.dim(0), rows_of_a_block(op.x.dim(0)))),
                .threads = 32 * kWarps},
               cuda.state().stream, true,
               PerHead{.x = heads_of(op.x),
                       .tiles = static_cast<const unsigned char*>(op.w.data),
                       .tile_bytes = layout.tile_bytes,
                       .y = heads_of(op.y),
                       .tokens = static_cast<int>(op.x.dim(0)),
                       .tiles_per_head = static_cast<int>(out / kTileRows),
                       .in = static_cast<int>(layout.in),
                       .chunks = chunks,
                       .warps_per_tile = warps,
                       .tile_count = static_cast<int>(layout.tiles),
                       .rows_of_a_block = rows_of_a_block(op.x.dim(0))});
}

}  // namespace

void run(Cuda& cuda, const PerHeadGemm& op) {
  const MatrixLayout& matrix = op.w.layout;
  if (op.x.dim(0) == 0) return;
  if (matrix.packing == Packing::tiles) {
    if (matrix.type == NumberType::bf16) return run_tiles<NumberType::bf16>(cuda, op);
    if (matrix.type == NumberType::f16) return run_tiles<NumberType::f16>(cuda, op);
    throw std::invalid_argument("per-head matrices in tiles cannot be " + std::string(name_of(matrix.type)) +
                                " (accepted: bf16, f16)");
  }
  const auto out = static_cast<int>(op.y.dim(2));
  cuda::with_float_type(matrix.type, "a per-head matrix", [&](auto number) {
    using Number = decltype(number);
    cuda::launch(per_head_rows<Number>,
                 {.grid = dim3(cuda::blocks_for(out, 8), static_cast<unsigned>(op.x.dim(1)),
                               static_cast<unsigned>(op.x.dim(0))),
                  .threads = 256},
                 cuda.state().stream, true, heads_of(op.x), static_cast<const Number*>(op.w.data),
                 matrix.row_bytes / static_cast<std::int64_t>(sizeof(Number)), heads_of(op.y), out,
                 static_cast<int>(matrix.in));
  });
}

cuda::AttendCall cuda::call_of(const MlaAttention& op) {
  const auto rank = static_cast<int>(op.q_latent.dim(2));
  AttendCall call{.type = op.cache.type(),
                  .shape = {.tokens = static_cast<int>(op.q_latent.dim(0)),
                            .heads = static_cast<int>(op.q_latent.dim(1)),
                            .kv_heads = 1,
                            .key_width = static_cast<int>(op.cache.dim(2)),
                            .value_width = rank,
                            .window = 0,
                            .capacity = static_cast<int>(op.cache.dim(1)),
                            .scale = op.scale}};
  AttendInputs& in = call.inputs;
  in.q = op.q_latent.f32();
  in.q_strides = {op.q_latent.stride(0), op.q_latent.stride(1)};
  in.q_width = rank;
  in.q_rest = op.q_rope.f32();
  in.q_rest_strides = {op.q_rope.stride(0), op.q_rope.stride(1)};
  in.keys = in.values = op.cache.data();
  in.slot_stride = op.cache.stride(0);
  in.row_stride = op.cache.stride(1);
  if (!op.scales.empty()) {
    in.key_scales = in.value_scales = op.scales.f32();
    in.scale_slot_stride = op.scales.stride(0);
  }
  in.sequences = op.sequences.i32();
  in.positions = op.positions.i32();
  in.y = op.y.f32();
  in.y_strides = {op.y.stride(0), op.y.stride(1)};
  return call;
}

void run(Cuda& cuda, const MlaAttention& op) {
  const cuda::AttendCall call = cuda::call_of(op);
  if (cuda::attends_latent_as_prompt(cuda, call.type, call.shape, call.inputs, op.runs))
    return cuda::attend_latent_prompt(cuda, call.shape, call.inputs);
  cuda::attend(cuda, call.type, call.shape, call.inputs);
}

}  // namespace moetune
