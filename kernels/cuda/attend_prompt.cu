// FlashAttention-2 (arXiv 2307.08691) with mma.sync: a warp has 16 tokens, keys and values come in tiles of
// 64 positions through two stages in shared memory. Which positions a token sees is looked up, not assumed: a
// step may hold the ends of several prompts.
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/quad.cuh"
#include "kernels/kernel_path.h"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kTokens = 16 * kWarps;
constexpr int kKeys = 64;
constexpr float kLog2E = 1.4426950408889634F;

// kIsSplit: queries and weights count with sixteen bits of mantissa, as two operands each, instead of eight.
// Grid: (heads, tiles of tokens).
template <int width, bool kIsSplit>
__global__ void __launch_bounds__(32 * kWarps, 1) attend_prompt_kernel(AttendShape shape, AttendInputs in) {
  extern __shared__ __align__(128) unsigned char shared[];  // stages of (keys, values)
  __shared__ Run run;
  constexpr int kTileBytes = kKeys * width * 2;
  constexpr int kParts = kIsSplit ? 2 : 1;
  let_next_start();
  wait_for_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int head = static_cast<int>(blockIdx.x);
  const int kv_head = head / (shape.heads / shape.kv_heads);
  // The last tokens see most: they go first.
  const int first_token = (static_cast<int>(gridDim.y) - 1 - static_cast<int>(blockIdx.y)) * kTokens;
  const int tokens = min(kTokens, shape.tokens - first_token);
  const int my_row = thread / 32 * 16 + g;  // and my_row + 8
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));

  std::uint32_t q[kParts][width / 16][4];
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int row = min(my_row + 8 * side, tokens - 1);
    const float* from = in.q + (first_token + row) * in.q_strides.token + head * in.q_strides.head + 2 * t;
#pragma unroll
    for (int k = 0; k < width / 16; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float low = from[16 * k + 8 * half] * shape.scale * kLog2E;
        const float high = from[16 * k + 8 * half + 1] * shape.scale * kLog2E;
        const std::uint32_t bits = pack2(low, high);
        q[0][k][2 * half + side] = bits;
        if constexpr (kIsSplit) q[1][k][2 * half + side] = lost2(low, high, bits);
      }
  }
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  float out[width / 8][4] = {};

  for (int begin = 0; begin < tokens;) {
    const auto [end, least, most] =
        next_run(run, in.sequences, in.positions, begin, tokens, [&](int row) { return first_token + row; });
    const int sequence = in.sequences[first_token + begin];
    int position[2];  // -1: not of this run, sees nothing
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int row = my_row + 8 * side;
      position[side] = row >= begin && row < end ? in.positions[first_token + row] : -1;
    }
    const int first_key = shape.window > 0 ? max(0, least + 1 - shape.window) / kKeys * kKeys : 0;
    const int tiles = (most + 1 - first_key + kKeys - 1) / kKeys;
    const std::int64_t place = sequence * in.slot_stride + kv_head * in.head_stride;
    const auto* keys = static_cast<const __nv_bfloat16*>(in.keys) + place;
    const auto* values = static_cast<const __nv_bfloat16*>(in.values) + place;
    const auto fetch = [&](int tile) {
      if (tile < tiles) {
        const std::uint32_t stage = base + static_cast<std::uint32_t>(tile % 2 * 2 * kTileBytes);
        constexpr int kPieces = width / 8;
#pragma unroll
        for (int i = 0; i < kKeys * kPieces / (32 * kWarps); ++i) {
          const int at = thread + 32 * kWarps * i;
          const int row = at / kPieces;
          const std::int64_t from =
              min(first_key + tile * kKeys + row, most) * in.row_stride + at % kPieces * 8;
          copy_async16(stage + piece_at<width>(row, at % kPieces), keys + from);
          copy_async16(stage + kTileBytes + piece_at<width>(row, at % kPieces), values + from);
        }
      }
      commit_copies();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
      fetch(tile + 1);
      wait_for_copies<1>();
      __syncthreads();
      const std::uint32_t key_tile = base + static_cast<std::uint32_t>(tile % 2 * 2 * kTileBytes);
      const std::uint32_t value_tile = key_tile + kTileBytes;
      float score[kKeys / 8][4] = {};
#pragma unroll
      for (int k = 0; k < width / 16; ++k)
#pragma unroll
        for (int n = 0; n < kKeys / 8; n += 2) {
          std::uint32_t b[4];
          load_matrices<false>(
              b, key_tile + piece_at<width>(8 * n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            const std::uint32_t(&a)[4] = q[part][k];
            mma(score[n], a[0], a[1], a[2], a[3], b[0], b[1]);
            mma(score[n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
          }
        }
      const int key = first_key + tile * kKeys;
      // Most tiles are seen as a whole.
      if (begin > 0 || end < kTokens || key + kKeys - 1 > least ||
          (shape.window > 0 && key + shape.window <= most)) {
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = key + 8 * n + 2 * t + i % 2;
            const bool is_seen =
                at <= position[i / 2] && (shape.window == 0 || at > position[i / 2] - shape.window);
            if (!is_seen) score[n][i] = -INFINITY;
          }
      }
      float reference[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float highest = top[side];
#pragma unroll
        for (int n = 0; n < kKeys / 8; ++n)
          highest = fmaxf(highest, fmaxf(score[n][2 * side], score[n][2 * side + 1]));
        highest = quad_max(highest);
        reference[side] = highest == -INFINITY ? 0.0F : highest;  // nothing seen so far
        const float factor = power_of_two(top[side] - reference[side]);
        top[side] = highest;
        sum[side] *= factor;
#pragma unroll
        for (int n = 0; n < width / 8; ++n) out[n][2 * side] *= factor, out[n][2 * side + 1] *= factor;
      }
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          score[n][i] = power_of_two(score[n][i] - reference[i / 2]);
          sum[i / 2] += score[n][i];
        }
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        std::uint32_t a[kParts][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float low = score[2 * k + i / 2][i % 2 * 2];
          const float high = score[2 * k + i / 2][i % 2 * 2 + 1];
          a[0][i] = pack2(low, high);
          if constexpr (kIsSplit) a[1][i] = lost2(low, high, a[0][i]);
        }
#pragma unroll
        for (int n = 0; n < width / 8; n += 2) {
          std::uint32_t b[4];
          load_matrices<true>(
              b, value_tile + piece_at<width>(16 * k + lane / 8 % 2 * 8 + lane % 8, n + lane / 16));
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            mma(out[n], a[part][0], a[part][1], a[part][2], a[part][3], b[0], b[1]);
            mma(out[n + 1], a[part][0], a[part][1], a[part][2], a[part][3], b[2], b[3]);
          }
        }
      }
      __syncthreads();  // the stage may be filled again
    }
    begin = end;
  }

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    sum[side] = quad_sum(sum[side]);
    const int row = my_row + 8 * side;
    if (row >= tokens) continue;
    const float share = 1.0F / sum[side];
    float* to = in.y + (first_token + row) * in.y_strides.token + head * in.y_strides.head + 2 * t;
#pragma unroll
    for (int n = 0; n < width / 8; ++n) {
      to[8 * n] = out[n][2 * side] * share;
      to[8 * n + 1] = out[n][2 * side + 1] * share;
    }
  }
}

template <int width>
void run_width(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const bool is_split = shape.tokens <= kernel_path().most_split_tokens;
  launch(is_split ? attend_prompt_kernel<width, true> : attend_prompt_kernel<width, false>,
         {.grid = dim3(static_cast<unsigned>(shape.heads), blocks_for(shape.tokens, kTokens)),
          .threads = 32 * kWarps,
          .shared_bytes = 4 * kKeys * width * 2},
         cuda.state().stream, true, shape, in);
}

}  // namespace

bool attends_as_prompt(NumberType cache_type, const AttendShape& shape, const AttendInputs& in, int runs) {
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  return runs > 0 && shape.tokens >= kernel_path().least_prompt_tokens && shape.tokens >= runs * kLeastRun &&
         cache_type == NumberType::bf16 && in.q_rest == nullptr && in.keys != in.values &&
         shape.key_width == shape.value_width && (shape.key_width == 64 || shape.key_width == 128) &&
         in.slot_stride % 8 == 0 && in.row_stride % 8 == 0 && in.head_stride % 8 == 0 && aligned(in.keys) &&
         aligned(in.values);
}

void attend_prompt(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const KernelPath path = kernel_path();
  if (!path.is_portable && shape.tokens > path.most_split_tokens && attends_with_hopper(cuda, in))
    return attend_with_hopper(cuda, shape, in);
  if (shape.key_width == 64) return run_width<64>(cuda, shape, in);
  run_width<128>(cuda, shape, in);
}

}  // namespace moetune::cuda
