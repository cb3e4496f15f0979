// A warp takes 16 positions at a time: scores of up to 16 query heads as one product, then weights times values as another
// (the scheme of FlashAttention-2, arXiv 2307.08691, with heads in place of query positions). Keys and values come straight
// from the cache into registers, 16 bytes a load: which element of a row stands at which place of an operand is free as long
// as both operands agree, so no transposition through shared memory is needed.
#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/fragment.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kHeads = 16;      // rows of an operand
constexpr int kPositions = 16;  // of a warp's turn
constexpr int kLeast = kWarps * kPositions;

__device__ __forceinline__ uint4 load16(const __nv_bfloat16* from) { return *reinterpret_cast<const uint4*>(from); }

// Element j of two rows of eight, side by side.
__device__ __forceinline__ std::uint32_t pair_of(const uint4& a, const uint4& b, int j) {
  return __byte_perm(word(a, j / 2), word(b, j / 2), j % 2 == 0 ? 0x5410 : 0x7632);
}

// Grid: (pieces, kv heads x blocks of 16 heads, tokens).
template <int width>
__global__ void __launch_bounds__(32 * kWarps) attend_tensor(AttendShape shape, AttendInputs in, Pieces pieces) {
  constexpr int kChunks = width / 32;  // of a key row: 32 elements, two products
  constexpr int kBlocks = width / 64;  // of a value row: 64 elements, eight products
  extern __shared__ float parts[];     // (warps, heads, width + 2)
  let_next_start();
  wait_for_previous();
  const int token = static_cast<int>(blockIdx.z);
  const auto [begin, each, active, all] = cut_of(shape, in.positions[token], pieces.count, kLeast);
  if (static_cast<int>(blockIdx.x) >= active) return;
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const int shared_by = shape.heads / shape.kv_heads;
  const int head_blocks = (shared_by + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / head_blocks;
  const int first_head = kv_head * shared_by + static_cast<int>(blockIdx.y) % head_blocks * kHeads;
  const int head_count = min(kHeads, kv_head * shared_by + shared_by - first_head);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int g = static_cast<int>(threadIdx.x % 32) / 4;
  const int t = static_cast<int>(threadIdx.x % 4);
  const std::int64_t base = in.sequences[token] * in.slot_stride + kv_head * in.head_stride;
  const auto* keys = static_cast<const __nv_bfloat16*>(in.keys) + base;
  const auto* values = static_cast<const __nv_bfloat16*>(in.values) + base;

  uint4 key[2][kChunks];
  uint4 value[4][kBlocks];
  const auto load_keys = [&](int start) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::int64_t row = std::int64_t{min(start + 8 * n + g, end - 1)} * in.row_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) key[n][c] = load16(keys + row + 32 * c + 8 * t);
    }
  };
  const auto load_values = [&](int start) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row = std::int64_t{min(start + 2 * t + i / 2 * 8 + i % 2, end - 1)} * in.row_stride;
#pragma unroll
      for (int c = 0; c < kBlocks; ++c) value[i][c] = load16(values + row + 64 * c + 8 * g);
    }
  };
  int start = first + warp * kPositions;
  if (start < end) load_keys(start);

  std::uint32_t q[kChunks][2][4];
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = g + 8 * half;
      float v[8] = {};
      if (head < head_count) {
        const float* from = in.q + token * in.q_strides.token + (first_head + head) * in.q_strides.head + 32 * c + 8 * t;
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = from[i] * shape.scale;
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        q[c][m][half] = pack2(v[4 * m], v[4 * m + 1]);
        q[c][m][2 + half] = pack2(v[4 * m + 2], v[4 * m + 3]);
      }
    }

  float top[2] = {kNothing, kNothing};  // of heads g and g + 8
  float sum[2] = {};                    // this lane's share
  float out[8 * kBlocks][4] = {};
  for (; start < end; start += kWarps * kPositions) {
    load_values(start);
    float score[2][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 2; ++n)
          mma(score[n], q[c][m][0], q[c][m][1], q[c][m][2], q[c][m][3], word(key[n][c], 2 * m), word(key[n][c], 2 * m + 1));
    if (start + kWarps * kPositions < end) load_keys(start + kWarps * kPositions);
    float most[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (start + 8 * n + 2 * t + i % 2 >= end) score[n][i] = kNothing;
        most[i / 2] = fmaxf(most[i / 2], score[n][i]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 1));
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 2));
    }
    const float factor[2] = {__expf(top[0] - most[0]), __expf(top[1] - most[1])};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = most[half];
      sum[half] *= factor[half];
    }
    float weight[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Where all scores so far are "nothing", exp(0) would count positions that do not exist.
        weight[n][i] = score[n][i] == kNothing ? 0.0F : __expf(score[n][i] - most[i / 2]);
        sum[i / 2] += weight[n][i];
      }
    if (__any_sync(0xFFFFFFFFU, factor[0] != 1.0F || factor[1] != 1.0F))
#pragma unroll
      for (int j = 0; j < 8 * kBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[j][i] *= factor[i / 2];
    const std::uint32_t a[4] = {pack2(weight[0][0], weight[0][1]), pack2(weight[0][2], weight[0][3]),
                                pack2(weight[1][0], weight[1][1]), pack2(weight[1][2], weight[1][3])};
#pragma unroll
    for (int c = 0; c < kBlocks; ++c)
#pragma unroll
      for (int j = 0; j < 8; ++j)
        mma(out[8 * c + j], a[0], a[1], a[2], a[3], pair_of(value[0][c], value[1][c], j),
            pair_of(value[2][c], value[3][c], j));
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 1);
    sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 2);
    float* to = parts + (warp * kHeads + g + 8 * half) * (width + 2);
    if (t == 0) to[0] = top[half], to[1] = sum[half];
#pragma unroll
    for (int c = 0; c < kBlocks; ++c)
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i) to[2 + 8 * (2 * t + i + 8 * c) + j] = out[8 * c + j][2 * half + i];
  }
  finish_piece<kWarps, kHeads, width>(shape, in, pieces, token, first_head, head_count, active, parts);
}

template <int width>
void run_width(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const int head_blocks = (shape.heads / shape.kv_heads + kHeads - 1) / kHeads * shape.kv_heads;
  const Pieces pieces = make_pieces(cuda, shape, head_blocks, kLeast);
  launch(attend_tensor<width>,
         {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                       static_cast<unsigned>(shape.tokens)),
          .threads = 32 * kWarps,
          .shared_bytes = kWarps * kHeads * (width + 2) * static_cast<int>(sizeof(float))},
         cuda.state().stream, true, shape, in, pieces);
}

}  // namespace

bool attends_with_tensor_cores(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  return cache_type == NumberType::bf16 && in.keys != in.values && in.q_rest == nullptr &&
         shape.key_width == shape.value_width && (shape.key_width == 64 || shape.key_width == 128);
}

void attend_with_tensor_cores(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  if (shape.key_width == 64) return run_width<64>(cuda, shape, in);
  run_width<128>(cuda, shape, in);
}

}  // namespace moetune::cuda
