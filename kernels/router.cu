// Few tokens: one kernel. A block computes the logits of a few experts for one token, its warps sharing the
// row; a token's last block waits for the others' logits and picks its experts. Many tokens: norm, product
// and top-k one after the other.
#include "kernels/router.h"

#include <algorithm>

#include "kernels/cuda/pick.cuh"
#include "kernels/cuda/synthetic_logits.cuh"
#include "kernels/gemm.h"
#include "kernels/rms_norm.h"

namespace moetune {
namespace {

constexpr int kWarps = 8;
constexpr int kMostTokens = 32;
constexpr int kWantedBlocks = 256;  // of a step: more of them only read x more often
constexpr int kHeld = 4;            // turns of a warp whose weights lie in registers before the row is there

struct Work {
  cuda::Rows x;
  const float* norm;
  cuda::Rows normed;
  float eps;
  int hidden;
  int experts_per_block;  // 1, 2, 4 or 8
  std::int64_t w_stride;
  cuda::Rows logits;
  const float* bias;
  std::int32_t* ids;
  std::int64_t ids_stride;
  cuda::Rows weights;
  cuda::PickRule rule;
  unsigned long long* posted;  // (tokens, experts), zeros before and after: post()
  cuda::Synthetic synthetic;
  bool holds_next;
};

// Four neighbouring elements of a row of weights; is_aligned: all four exist and may be loaded at once.
template <class Number>
__device__ __forceinline__ float4 four(const Number* from, int left, bool is_aligned) {
  if (is_aligned) {
    if constexpr (sizeof(Number) == 4) return *reinterpret_cast<const float4*>(from);
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    const auto* numbers = reinterpret_cast<const Number*>(&bits);
    return {cuda::widen(numbers[0]), cuda::widen(numbers[1]), cuda::widen(numbers[2]),
            cuda::widen(numbers[3])};
  }
  return {left > 0 ? cuda::widen(from[0]) : 0.0F, left > 1 ? cuda::widen(from[1]) : 0.0F,
          left > 2 ? cuda::widen(from[2]) : 0.0F, left > 3 ? cuda::widen(from[3]) : 0.0F};
}

// A logit on its way to the block that picks: one store says that it is there and what it is, where a store,
// a fence and a counter would cross the L2 cache three times.
__device__ __forceinline__ void post(unsigned long long* to, float logit) {
  const unsigned long long bits = (1ULL << 32) | __float_as_uint(logit);
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to), "l"(bits) : "memory");
}
// Waits for it and makes the place empty again.
__device__ __forceinline__ float take(unsigned long long* from) {
  unsigned long long bits = 0;
  do asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
  while (bits == 0);
  *from = 0;
  return __uint_as_float(static_cast<unsigned>(bits));
}

template <class Number, int slots>
__global__ void __launch_bounds__(32 * kWarps) router(Work work, const Number* w) {
  extern __shared__ float shared[];  // logits of the token, then what picking needs
  __shared__ float dots[kWarps];
  __shared__ float squares[kWarps];
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t token = blockIdx.y;
  const int warps_per_expert = kWarps / work.experts_per_block;
  const int expert = static_cast<int>(blockIdx.x) * work.experts_per_block + warp / warps_per_expert;
  const int share = warp % warps_per_expert;
  const bool is_expert = expert < work.rule.experts;
  const bool posts = share == 0 && lane == 0 && is_expert;
  const Number* row = w + (is_expert ? expert : 0) * work.w_stride;
  const bool is_aligned = work.hidden % 4 == 0 && work.w_stride % 4 == 0 && work.x.stride % 4 == 0;
  const int first = (share * 32 + lane) * 4;
  const int step = warps_per_expert * 128;
  // The weights are written by no kernel: on their way while the one before us ends.
  float4 held_norm[kHeld];
  float4 held_row[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = first + i * step;
    held_norm[i] = four(work.norm + column, work.hidden - column, is_aligned && column < work.hidden);
    held_row[i] = four(row + column, work.hidden - column, is_aligned && column < work.hidden);
  }
  for (int column = first + kHeld * step; column < work.hidden; column += step)
    if (column % (128 / static_cast<int>(sizeof(Number))) == 0)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row + column));
  // Sequences and positions are older than this step, whose first kernel waits for all before it.
  float synthetic = 0.0F;
  if (posts)
    synthetic = cuda::synthetic_or(work.synthetic, cuda::load_synthetic(work.synthetic, token, expert),
                                   static_cast<std::uint32_t>(expert), 0.0F);
  if (!work.holds_next) cuda::let_next_start();
  cuda::wait_for_previous();
  if (work.holds_next) cuda::let_next_start();

  const float* x = work.x.row(token);
  float dot = 0.0F;
  float square = 0.0F;
  const auto add = [&](const float4& a, const float4& b, const float4& c) {
    square += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
    dot += a.x * b.x * c.x + a.y * b.y * c.y + a.z * b.z * c.z + a.w * b.w * c.w;
  };
  float4 held_x[kHeld];
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int column = first + i * step;
    held_x[i] = four(x + column, work.hidden - column, is_aligned && column < work.hidden);
  }
#pragma unroll
  for (int i = 0; i < kHeld; ++i) add(held_x[i], held_norm[i], held_row[i]);
#pragma unroll 4
  for (int column = first + kHeld * step; column < work.hidden; column += step) {
    const int left = work.hidden - column;
    add(four(x + column, left, is_aligned), four(work.norm + column, left, is_aligned),
        four(row + column, left, is_aligned));
  }
  dot = cuda::warp_sum(dot);
  square = cuda::warp_sum(square);
  if (lane == 0) dots[warp] = dot, squares[warp] = square;
  __syncthreads();
  float total = 0.0F;
  for (int other = 0; other < warps_per_expert; ++other) total += squares[other];
  const float inverse = rsqrtf(total / static_cast<float>(work.hidden) + work.eps);
  unsigned long long* posted = work.posted + token * work.rule.experts;
  if (posts) {
    float sum = 0.0F;
    for (int other = 0; other < warps_per_expert; ++other) sum += dots[warp + other];
    const float logit = work.synthetic.favour != nullptr ? synthetic : sum * inverse;
    post(posted + expert, logit);
    work.logits.row(token)[expert] = logit;
  }
  // All blocks of a token share the writing of its normed row.
  for (int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); column < work.hidden;
       column += static_cast<int>(gridDim.x * blockDim.x))
    work.normed.row(token)[column] = x[column] * inverse * work.norm[column];
  // Blocks start in the order of their numbers: those that the last one waits for are there, whatever has
  // room.
  if (blockIdx.x != gridDim.x - 1) return;
  for (int i = static_cast<int>(threadIdx.x); i < work.rule.experts; i += 32 * kWarps)
    shared[i] = take(posted + i);
  __syncthreads();
  if (warp != 0) return;
  cuda::pick_experts<slots>(shared, work.bias, work.rule, shared + work.rule.experts,
                            work.ids + token * work.ids_stride, work.weights.row(token));
}

template <class Number>
void launch(Cuda& cuda, const Router& op, Work work) {
  const int blocks = (work.rule.experts + work.experts_per_block - 1) / work.experts_per_block;
  const int shared =
      (work.rule.experts + cuda::pick_floats(work.rule.experts)) * static_cast<int>(sizeof(float));
  work.w_stride = op.w.layout.row_bytes / static_cast<std::int64_t>(sizeof(Number));
  const int experts = work.rule.experts;
  const auto kernel = experts <= 128   ? router<Number, 4>
                      : experts <= 256 ? router<Number, 8>
                                       : router<Number, cuda::kMostPerLane>;
  cuda::launch(kernel,
               {.grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(op.x.dim(0))),
                .threads = 32 * kWarps,
                .shared_bytes = shared},
               cuda.state().stream, true, work, static_cast<const Number*>(op.w.data));
}

}  // namespace

void run(Cuda& cuda, const Router& op) {
  const auto tokens = static_cast<int>(op.x.dim(0));
  if (tokens == 0) return;
  if (tokens > kMostTokens) {
    run(cuda, RmsNorm{.x = op.x, .weight = op.norm, .y = op.normed, .eps = op.eps});
    run(cuda, Gemm{.x = op.normed, .w = op.w, .y = op.route.logits});
    if (!op.synthetic.favour.empty()) {
      SyntheticLogits synthetic = op.synthetic;
      synthetic.logits = op.route.logits;
      run(cuda, synthetic);
    }
    return run(cuda, op.route);
  }
  const auto experts = static_cast<int>(op.w.layout.out);
  int experts_per_block = 1;
  while (experts_per_block < kWarps && experts * tokens / experts_per_block > kWantedBlocks)
    experts_per_block *= 2;
  const Work work{
      .x = cuda::rows_of(op.x),
      .norm = op.norm.f32(),
      .normed = cuda::rows_of(op.normed),
      .eps = op.eps,
      .hidden = static_cast<int>(op.x.dim(1)),
      .experts_per_block = experts_per_block,
      .w_stride = 0,
      .logits = cuda::rows_of(op.route.logits),
      .bias = op.route.bias.empty() ? nullptr : op.route.bias.f32(),
      .ids = op.route.ids.i32(),
      .ids_stride = op.route.ids.stride(0),
      .weights = cuda::rows_of(op.route.weights),
      .rule = cuda::rule_of(op.route, experts),
      // Two counters a logit.
      .posted = reinterpret_cast<unsigned long long*>(cuda.state().counters(2 * tokens * experts)),
      .synthetic = cuda::synthetic_of(op.synthetic),
      .holds_next = op.is_before_shared};
  cuda::with_float_type(op.w.layout.type, "a router",
                        [&](auto number) { launch<decltype(number)>(cuda, op, work); });
}

}  // namespace moetune
