// Causal attention over MLA's compressed cache, 512 + 64 elements a position, for many tokens: one cache row
// serves all heads, so a row of a block is a (token, head) pair, 64 of them. Four warps share the rows; two
// share a tile's keys while scores are computed and the value's columns afterwards; the weights pass through
// shared memory in between.
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/quad.cuh"
#include "kernels/kernel_path.h"

namespace moetune::cuda {
namespace {

constexpr int kRank = 512;
constexpr int kRope = 64;
constexpr int kWidth = kRank + kRope;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 64;
constexpr int kKeys = 32;
constexpr int kQueryBytes = kRows * kWidth * 2;
constexpr int kTileBytes = kKeys * kWidth * 2;
constexpr int kWeightBytes = kRows * 64 * 2;  // rows of 64, half of them used: the swizzle wants eight pieces
constexpr int kSharedBytes = kQueryBytes + 2 * kTileBytes + kWeightBytes;
constexpr float kLog2E = 1.4426950408889634F;

__global__ void __launch_bounds__(kThreads, 1) attend_latent_run(AttendShape shape, AttendInputs in) {
  extern __shared__ __align__(128) unsigned char shared[];  // queries, two tiles, weights
  __shared__ Run run;
  __shared__ float tops[2][kRows];  // of either half of a tile's keys
  let_next_start();
  wait_for_previous();
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int first_row = thread / 64 * 16;  // of the warp
  const int half = thread / 32 % 2;
  // The last tokens see most: they go first.
  const int first =
      (static_cast<int>(gridDim.x) - 1 - static_cast<int>(blockIdx.x)) * kRows;  // (token, head)
  const int rows = min(kRows, shape.tokens * shape.heads - first);
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t weights_at = base + kQueryBytes + 2 * kTileBytes;
  const auto token_of = [&](int row) { return (first + row) / shape.heads; };

  for (int i = thread; i < kRows * (kWidth / 8); i += kThreads) {
    const int row = i / (kWidth / 8);
    const int piece = i % (kWidth / 8);
    const int token = token_of(min(row, rows - 1));
    const int head = (first + min(row, rows - 1)) % shape.heads;
    const float* from =
        piece * 8 < kRank
            ? in.q + token * in.q_strides.token + head * in.q_strides.head + piece * 8
            : in.q_rest + token * in.q_rest_strides.token + head * in.q_rest_strides.head + piece * 8 - kRank;
    std::uint32_t bits[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      bits[j] = pack2(from[2 * j] * shape.scale * kLog2E, from[2 * j + 1] * shape.scale * kLog2E);
    *reinterpret_cast<uint4*>(shared + piece_at<kWidth>(row, piece)) = {bits[0], bits[1], bits[2], bits[3]};
  }

  float top[2] = {-INFINITY, -INFINITY};  // of rows g and g + 8
  float sum[2] = {};                      // this warp's keys only
  float out[kRank / 2 / 8][4] = {};       // this warp's columns
  for (int begin = 0; begin < rows;) {
    const auto [end, least, most] = next_run(run, in.sequences, in.positions, begin, rows, token_of);
    int position[2];  // -1: not of this run, sees nothing
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int row = first_row + g + 8 * side;
      position[side] = row >= begin && row < end ? in.positions[token_of(row)] : -1;
    }
    const int tiles = most / kKeys + 1;
    const auto* keys =
        static_cast<const __nv_bfloat16*>(in.keys) + in.sequences[token_of(begin)] * in.slot_stride;
    const auto fetch = [&](int tile) {
      if (tile < tiles) {
        const std::uint32_t stage = base + kQueryBytes + static_cast<std::uint32_t>(tile % 2 * kTileBytes);
        for (int i = thread; i < kKeys * (kWidth / 8); i += kThreads) {
          const int row = i / (kWidth / 8);
          const int piece = i % (kWidth / 8);
          copy_async16(stage + piece_at<kWidth>(row, piece),
                       keys + min(tile * kKeys + row, most) * in.row_stride + piece * 8);
        }
      }
      commit_copies();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
      fetch(tile + 1);
      wait_for_copies<1>();
      __syncthreads();  // keys are there; the first time, queries too
      const std::uint32_t stage = base + kQueryBytes + static_cast<std::uint32_t>(tile % 2 * kTileBytes);
      float score[2][4] = {};  // keys 16 half + 8 n
#pragma unroll 4
      for (int k = 0; k < kWidth / 16; ++k) {
        std::uint32_t a[4];
        std::uint32_t b[4];
        load_matrices<false>(a, base + piece_at<kWidth>(first_row + lane % 16, 2 * k + lane / 16));
        load_matrices<false>(
            b, stage + piece_at<kWidth>(16 * half + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
        mma(score[0], a[0], a[1], a[2], a[3], b[0], b[1]);
        mma(score[1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float highest = -INFINITY;
#pragma unroll
        for (int n = 0; n < 2; ++n)
#pragma unroll
          for (int i = 2 * side; i < 2 * side + 2; ++i) {
            if (tile * kKeys + 16 * half + 8 * n + 2 * t + i % 2 > position[side]) score[n][i] = -INFINITY;
            highest = fmaxf(highest, score[n][i]);
          }
        highest = quad_max(highest);
        if (t == 0) tops[half][first_row + g + 8 * side] = highest;
      }
      __syncthreads();
      float factor[2];
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int row = first_row + g + 8 * side;
        const float highest = fmaxf(top[side], fmaxf(tops[0][row], tops[1][row]));
        const float reference = highest == -INFINITY ? 0.0F : highest;  // nothing seen so far
        factor[side] = power_of_two(top[side] - reference);
        top[side] = highest;
        sum[side] *= factor[side];
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const float low = power_of_two(score[n][2 * side] - reference);
          const float high = power_of_two(score[n][2 * side + 1] - reference);
          sum[side] += low + high;
          *reinterpret_cast<std::uint32_t*>(shared + (weights_at - base) + piece_at<64>(row, 2 * half + n) +
                                            t * 4) = pack2(low, high);
        }
      }
#pragma unroll
      for (int n = 0; n < kRank / 2 / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] *= factor[i / 2];
      __syncthreads();  // weights of both halves are there
#pragma unroll
      for (int k = 0; k < kKeys / 16; ++k) {
        std::uint32_t a[4];
        load_matrices<false>(a, weights_at + piece_at<64>(first_row + lane % 16, 2 * k + lane / 16));
#pragma unroll
        for (int n = 0; n < kRank / 2 / 8; n += 2) {
          std::uint32_t b[4];
          load_matrices<true>(b, stage + piece_at<kWidth>(16 * k + lane / 8 % 2 * 8 + lane % 8,
                                                          half * (kRank / 16) + n + lane / 16));
          mma(out[n], a[0], a[1], a[2], a[3], b[0], b[1]);
          mma(out[n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
        }
      }
      __syncthreads();  // the stage may be filled again
    }
    begin = end;
  }

#pragma unroll
  for (int side = 0; side < 2; ++side) {
    sum[side] = quad_sum(sum[side]);
    if (t == 0) tops[half][first_row + g + 8 * side] = sum[side];
  }
  __syncthreads();
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const int row = first_row + g + 8 * side;
    if (row >= rows) continue;
    const float share = 1.0F / (tops[0][row] + tops[1][row]);
    float* to = in.y + token_of(row) * in.y_strides.token + (first + row) % shape.heads * in.y_strides.head +
                half * (kRank / 2) + 2 * t;
#pragma unroll
    for (int n = 0; n < kRank / 2 / 8; ++n) {
      to[8 * n] = out[n][2 * side] * share;
      to[8 * n + 1] = out[n][2 * side + 1] * share;
    }
  }
}

}  // namespace

bool attends_latent_as_prompt(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                              const AttendInputs& in, int runs) {
  int most_shared = 0;
  CUDA_TRY(
      cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda.state().ordinal));
  return most_shared >= kSharedBytes + 1024 && runs > 0 &&
         shape.tokens >= kernel_path().least_prompt_tokens && shape.tokens >= runs * kLeastRun &&
         cache_type == NumberType::bf16 && in.q_width == kRank && shape.value_width == kRank &&
         shape.key_width == kWidth && shape.window == 0 && in.slot_stride % 8 == 0 &&
         in.row_stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(in.keys) % 16 == 0;
}

void attend_latent_prompt(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  launch(attend_latent_run,
         {.grid = dim3(blocks_for(std::int64_t{shape.tokens} * shape.heads, kRows)),
          .threads = kThreads,
          .shared_bytes = kSharedBytes},
         cuda.state().stream, true, shape, in);
}

}  // namespace moetune::cuda
