// attend_prompt() with wgmma: two warpgroups with 64 tokens each, tiles of 128 positions. Scores take queries
// and keys from shared memory; their sums are, as they lie in registers, operand A of the product with the
// values. While one warpgroup is at its softmax the other one multiplies.
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/cuda/attend_runs.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/quad.cuh"

namespace moetune::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTokens = 128;
constexpr int kKeys = 128;
constexpr int kPartBytes = kKeys * 128;  // 128 rows of 64 elements
[[maybe_unused]] constexpr float kLog2E = 1.4426950408889634F;

template <int width>
constexpr int shared_bytes() {
  return 1024 + (width / 64) * kPartBytes * 5;  // queries, two stages of keys and values
}

// Empty where it was not compiled for wgmma, as prompt_hopper.
template <int width>
__global__ void __launch_bounds__(kThreads, 1) attend_hopper_kernel(AttendShape shape, AttendInputs in) {
#if MOETUNE_HOPPER
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ Run run;
  constexpr int kParts = width / 64;  // of a row
  constexpr int kTileBytes = kParts * kPartBytes;
  auto* shared =
      reinterpret_cast<unsigned char*>((reinterpret_cast<std::uintptr_t>(raw) + 1023) / 1024 * 1024);
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
  const auto queries = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const auto place_of_piece = [](int row, int piece) {
    return piece / 8 * kPartBytes + row * 128 + (piece % 8 ^ row % 8) * 16;
  };

  for (int i = thread; i < kTokens * (width / 8); i += kThreads) {
    const int row = i / (width / 8);
    const int piece = i % (width / 8);
    const float* from = in.q + (first_token + min(row, tokens - 1)) * in.q_strides.token +
                        head * in.q_strides.head + piece * 8;
    std::uint32_t bits[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      bits[j] = pack2(from[2 * j] * shape.scale * kLog2E, from[2 * j + 1] * shape.scale * kLog2E);
    *reinterpret_cast<uint4*>(shared + place_of_piece(row, piece)) = {bits[0], bits[1], bits[2], bits[3]};
  }

  float top[2] = {-INFINITY, -INFINITY};  // of rows my_row and my_row + 8
  float sum[2] = {};
  float out[width / 2] = {};
  for (int begin = 0; begin < tokens;) {
    const auto [end, least, most] =
        next_run(run, in.sequences, in.positions, begin, tokens, [&](int row) { return first_token + row; });
    int position[2];  // -1: not of this run, sees nothing
#pragma unroll
    for (int side = 0; side < 2; ++side) {
      const int row = my_row + 8 * side;
      position[side] = row >= begin && row < end ? in.positions[first_token + row] : -1;
    }
    const int first_key = shape.window > 0 ? max(0, least + 1 - shape.window) / kKeys * kKeys : 0;
    const int tiles = (most + 1 - first_key + kKeys - 1) / kKeys;
    const std::int64_t place = in.sequences[first_token + begin] * in.slot_stride + kv_head * in.head_stride;
    const auto* keys = static_cast<const __nv_bfloat16*>(in.keys) + place;
    const auto* values = static_cast<const __nv_bfloat16*>(in.values) + place;
    const auto fetch = [&](int tile) {
      if (tile < tiles) {
        const std::uint32_t stage = queries + static_cast<std::uint32_t>((1 + tile % 2 * 2) * kTileBytes);
#pragma unroll
        for (int i = 0; i < kKeys * (width / 8) / kThreads; ++i) {
          const int at = thread + kThreads * i;
          const int row = at / (width / 8);
          const int piece = at % (width / 8);
          const std::int64_t from = min(first_key + tile * kKeys + row, most) * in.row_stride + piece * 8;
          copy_async16(stage + place_of_piece(row, piece), keys + from);
          copy_async16(stage + kTileBytes + place_of_piece(row, piece), values + from);
        }
      }
      commit_copies();
    };
    fetch(0);
    for (int tile = 0; tile < tiles; ++tile) {
      fetch(tile + 1);
      wait_for_copies<1>();
      fence_before_bulk();  // wgmma reads what ordinary instructions wrote
      __syncthreads();
      const std::uint32_t key_tile = queries + static_cast<std::uint32_t>((1 + tile % 2 * 2) * kTileBytes);
      const std::uint32_t value_tile = key_tile + kTileBytes;
      float score[64] = {};
      wgmma_fence();
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          wgmma_shared(score, k_major_rows(queries + part * kPartBytes + thread / 128 * 64 * 128 + 32 * k),
                       k_major_rows(key_tile + part * kPartBytes + 32 * k));
      wgmma_commit();
      wgmma_wait<0>();
      const int key = first_key + tile * kKeys;
      // Most tiles are seen as a whole.
      if (begin > 0 || end < kTokens || key + kKeys - 1 > least ||
          (shape.window > 0 && key + shape.window <= most)) {
#pragma unroll
        for (int i = 0; i < 64; ++i) {
          const int at = key + i / 4 * 8 + 2 * t + i % 2;
          const int mine = position[i % 4 / 2];
          if (at > mine || (shape.window > 0 && at <= mine - shape.window)) score[i] = -INFINITY;
        }
      }
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        float highest = top[side];
#pragma unroll
        for (int j = 0; j < 16; ++j)
          highest = fmaxf(highest, fmaxf(score[4 * j + 2 * side], score[4 * j + 2 * side + 1]));
        highest = quad_max(highest);
        const float reference = highest == -INFINITY ? 0.0F : highest;  // nothing seen so far
        const float factor = power_of_two(top[side] - reference);
        top[side] = highest;
        sum[side] *= factor;
#pragma unroll
        for (int j = 0; j < width / 8; ++j)
          out[4 * j + 2 * side] *= factor, out[4 * j + 2 * side + 1] *= factor;
#pragma unroll
        for (int j = 0; j < 16; ++j)
#pragma unroll
          for (int i = 4 * j + 2 * side; i < 4 * j + 2 * side + 2; ++i) {
            score[i] = power_of_two(score[i] - reference);
            sum[side] += score[i];
          }
      }
      std::uint32_t weights[8][4];
#pragma unroll
      for (int k = 0; k < 8; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[k][i] = pack2(score[8 * k + 2 * i], score[8 * k + 2 * i + 1]);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 8; ++k)
        wgmma<width, true>(out, weights[k], turned_rows(value_tile + 2048 * k, kPartBytes));
      wgmma_commit();
      wgmma_wait<0>();
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
    for (int j = 0; j < width / 8; ++j)
      *reinterpret_cast<float2*>(to + 8 * j) =
          make_float2(out[4 * j + 2 * side] * share, out[4 * j + 2 * side + 1] * share);
  }
#endif
}

template <int width>
void run_width(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  launch(attend_hopper_kernel<width>,
         {.grid = dim3(static_cast<unsigned>(shape.heads), blocks_for(shape.tokens, kTokens)),
          .threads = kThreads,
          .shared_bytes = shared_bytes<width>()},
         cuda.state().stream, true, shape, in);
}

}  // namespace

bool attends_with_hopper(Cuda& cuda, const AttendInputs& in) {
  static const bool is_compiled = [] {
    cudaFuncAttributes attributes{};
    CUDA_TRY(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(attend_hopper_kernel<64>)));
    return attributes.sharedSizeBytes > 0;
  }();
  int major = 0;
  CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, cuda.state().ordinal));
  return is_compiled && major == 9 && reinterpret_cast<std::uintptr_t>(in.y) % 8 == 0 &&
         in.y_strides.token % 2 == 0 && in.y_strides.head % 2 == 0;
}

void attend_with_hopper(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  if (shape.key_width == 64) return run_width<64>(cuda, shape, in);
  run_width<128>(cuda, shape, in);
}

}  // namespace moetune::cuda
