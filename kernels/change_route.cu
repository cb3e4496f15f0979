// Dropping asks nothing but a token's own list: a warp each. Whom a token replaces depends on the tokens
// before it: one block scores as many tokens as it has warps, its first warp goes through them in order.
#include "kernels/change_route.h"

#include <algorithm>

#include "kernels/cuda/pick.cuh"

namespace moetune {
namespace {

using cuda::PickRule;
using cuda::Rows;

constexpr int kMostWarps = 32;
constexpr int kMostSharedBytes = 96 * 1024;

struct Work {
  Rows logits;
  const float* bias;
  std::int32_t* ids;  // (tokens, k)
  Rows weights;
  PickRule rule;  // of given ids
  int tokens;
  double threshold;
  int kept;
  double margin;
  const std::int32_t* slot_of_expert;
  std::int64_t* replaced;
};

// The weights of one token's list as it is now.
template <int slots>
__device__ __forceinline__ void weigh_again(const Work& work, int token, float* shared) {
  cuda::pick_experts<slots>(work.logits.row(token), work.bias, work.rule, shared,
                            work.ids + token * work.rule.k, work.weights.row(token));
}

template <int slots>
__global__ void __launch_bounds__(32) drop(const __grid_constant__ Work work) {
  extern __shared__ float shared[];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto lane = static_cast<int>(threadIdx.x);
  const auto token = static_cast<int>(blockIdx.x);
  const int k = work.rule.k;
  std::int32_t* ids = work.ids + token * k;
  const float* weights = work.weights.row(token);
  float most = -INFINITY;
  for (int i = lane; i < k; i += 32) most = fmaxf(most, weights[i]);
  const double least = work.threshold * static_cast<double>(cuda::warp_max(most));
  bool drops = false;
  for (int i = lane; i < k; i += 32) {
    const bool stays = (work.threshold <= 0.0 || static_cast<double>(weights[i]) >= least) &&
                       (work.kept <= 0 || i < work.kept);
    if (stays) continue;
    ids[i] = -1;
    drops = true;
  }
  if (!__any_sync(cuda::kAll, drops)) return;
  __syncwarp();
  weigh_again<slots>(work, token, shared);
}

__device__ __forceinline__ float from_ordered(unsigned key) {
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

// By one warp. scores: those by which this token's experts were chosen. resident: of each lane's experts 32 i
// + lane, bit i. Returns how many were replaced.
template <int slots>
__device__ int replace_missing(const Work& work, int token, const float* scores, unsigned& resident) {
  const auto lane = static_cast<int>(threadIdx.x);
  const int k = work.rule.k;
  std::int32_t* ids = work.ids + token * k;
  unsigned chosen = 0;
  for (int i = 0; i < k; ++i)
    if (const int id = ids[i]; id >= 0 && id % 32 == lane) chosen |= 1U << id / 32;
  int replaced = 0;
  for (int i = 0; i < k; ++i) {
    const int id = ids[i];
    if (id < 0 || (__shfl_sync(cuda::kAll, resident, id % 32) >> id / 32 & 1U) != 0) continue;
    unsigned keys[slots];
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) {
      const int expert = slot * 32 + lane;
      const bool can_serve = ((resident & ~chosen) >> slot & 1U) != 0 && isfinite(scores[expert]);
      keys[slot] = can_serve ? cuda::ordered(scores[expert]) : 0U;
    }
    unsigned top = 0;
    const int other = cuda::largest(keys, lane, &top);
    const auto score = static_cast<double>(scores[id]);
    const double least = __dsub_rn(score, __dmul_rn(work.margin, fabs(score)));  // as the host rounds it
    if (top != 0 && static_cast<double>(scores[other]) >= least) {
      if (lane == 0) ids[i] = other;
      if (lane == id % 32) chosen &= ~(1U << id / 32);
      if (lane == other % 32) chosen |= 1U << other / 32;
      ++replaced;
    } else if (lane == id % 32) {
      resident |= 1U << id / 32;  // fetched: there for the tokens that follow
    }
  }
  return replaced;
}

template <int slots>
__global__ void __launch_bounds__(32 * kMostWarps) reroute_in_order(const __grid_constant__ Work work) {
  extern __shared__ float shared[];
  __shared__ bool is_changed[kMostWarps];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int experts = work.rule.experts;
  const int floats = 2 * experts + cuda::kMostGroups;
  float* mine = shared + warp * floats;
  unsigned resident = 0;
#pragma unroll
  for (int slot = 0; slot < slots; ++slot)
    if (const int expert = slot * 32 + lane; expert < experts && work.slot_of_expert[expert] >= 0)
      resident |= 1U << slot;
  int replaced = 0;
  for (int base = 0; base < work.tokens; base += warps) {
    const int token = base + warp;
    if (token < work.tokens) {
      unsigned keys[slots];
      const float total =
          cuda::score_experts<slots>(work.logits.row(token), work.bias, work.rule, mine, keys);
#pragma unroll
      for (int slot = 0; slot < slots; ++slot)
        if (const int expert = slot * 32 + lane; expert < experts)
          mine[experts + expert] = work.rule.is_softmax ? mine[expert] / total : from_ordered(keys[slot]);
    }
    __syncthreads();
    if (warp == 0)
      for (int i = 0; i < warps && base + i < work.tokens; ++i) {
        const int here = replace_missing<slots>(work, base + i, shared + i * floats + experts, resident);
        if (lane == 0) is_changed[i] = here > 0;
        replaced += here;
      }
    __syncthreads();
    if (token < work.tokens && is_changed[warp]) weigh_again<slots>(work, token, mine);
    __syncthreads();
  }
  if (threadIdx.x == 0 && replaced > 0) *work.replaced += replaced;
}

}  // namespace

void run(Cuda& cuda, const ChangeRoute& op) {
  const auto tokens = static_cast<int>(op.route.logits.dim(0));
  if (tokens == 0 || !op.changes()) return;
  const auto experts = static_cast<int>(op.route.logits.dim(1));
  Route given = op.route;
  given.ids_are_given = true;
  const Work work{.logits = cuda::rows_of(op.route.logits),
                  .bias = op.route.bias.empty() ? nullptr : op.route.bias.f32(),
                  .ids = op.route.ids.i32(),
                  .weights = cuda::rows_of(op.route.weights),
                  .rule = cuda::rule_of(given, experts),
                  .tokens = tokens,
                  .threshold = op.threshold,
                  .kept = op.kept,
                  .margin = op.margin,
                  .slot_of_expert = op.margin > 0.0 ? op.slot_of_expert.i32() : nullptr,
                  .replaced = op.replaced};
  const int bytes = cuda::pick_floats(experts) * static_cast<int>(sizeof(float));
  if (op.threshold > 0.0 || (op.kept > 0 && op.kept < work.rule.k)) {
    const auto kernel = experts <= 128 ? drop<4> : experts <= 256 ? drop<8> : drop<cuda::kMostPerLane>;
    cuda::launch(kernel, {.grid = dim3(static_cast<unsigned>(tokens)), .threads = 32, .shared_bytes = bytes},
                 cuda.state().stream, true, work);
  }
  if (op.margin <= 0.0) return;
  const int warps = std::clamp(kMostSharedBytes / bytes, 1, std::min(tokens, kMostWarps));
  const auto kernel = experts <= 128   ? reroute_in_order<4>
                      : experts <= 256 ? reroute_in_order<8>
                                       : reroute_in_order<cuda::kMostPerLane>;
  cuda::launch(kernel, {.grid = dim3(1), .threads = 32 * warps, .shared_bytes = warps * bytes},
               cuda.state().stream, true, work);
}

}  // namespace moetune
