// One warp a token: scores in registers, k rounds of "largest, then lowest id".
#include <stdexcept>

#include "kernels/cuda/view.cuh"
#include "kernels/route.h"

namespace moetune {
namespace {

constexpr int kMostPerLane = 32;  // experts of a lane: up to 1,024 in all
constexpr int kMostGroups = 32;
constexpr unsigned kAll = 0xFFFFFFFFU;

// Floats as unsigned numbers of the same order, so that redux.sync finds the largest in one instruction. 0
// stays below all of them: "already chosen".
__device__ __forceinline__ unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// The lowest id among the largest keys of the warp; id of slot i in a lane: 32 i + lane.
template <int slots>
__device__ __forceinline__ int largest(const unsigned (&keys)[slots], int lane, unsigned* top) {
  unsigned best = 0;
  int slot = 0;
#pragma unroll
  for (int i = 0; i < slots; ++i)
    if (keys[i] > best) {
      best = keys[i];
      slot = i;
    }
  *top = __reduce_max_sync(kAll, best);
  return static_cast<int>(
      __reduce_min_sync(kAll, best == *top ? static_cast<unsigned>(slot * 32 + lane) : 0x7FFFFFFFU));
}

template <int slots>
__device__ void keep_best_groups(unsigned (&keys)[slots], int lane, int experts, int groups, int kept_groups,
                                 float* group_scores, const float* choice_scores) {
  const int per_group = experts / groups;
  if (lane < groups) {
    float best = -INFINITY;
    float second = -INFINITY;
    for (int i = lane * per_group; i < (lane + 1) * per_group; ++i) {
      second = fmaxf(second, fminf(best, choice_scores[i]));
      best = fmaxf(best, choice_scores[i]);
    }
    group_scores[lane] = per_group == 1 ? best : best + second;
  }
  __syncwarp();
  unsigned group_key[1] = {lane < groups ? ordered(group_scores[lane]) : 0U};
  unsigned kept = 0;
  for (int round = 0; round < kept_groups; ++round) {
    unsigned top = 0;
    const int group = largest(group_key, lane, &top);
    kept |= 1U << group;
    if (lane == group) group_key[0] = 0;
  }
#pragma unroll
  for (int i = 0; i < slots; ++i)
    if (i * 32 + lane < experts && ((kept >> ((i * 32 + lane) / per_group)) & 1U) == 0)
      keys[i] = ordered(-INFINITY);
}

struct Rule {
  int experts;
  int k;
  int groups;
  int kept_groups;
  float scale;
  bool is_softmax;
  bool is_sigmoid;  // else sqrt-softplus
  bool normalizes;
};

template <int slots>
__global__ void __launch_bounds__(32) route(cuda::Rows logits, const float* bias, std::int32_t* ids,
                                            std::int64_t ids_stride, cuda::Rows weights, Rule rule) {
  extern __shared__ float shared[];  // (experts) scores, (experts) choice scores, (groups)
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto lane = static_cast<int>(threadIdx.x);
  const float* from = logits.row(blockIdx.x);
  float* scores = shared;
  float* choice_scores = shared + rule.experts;
  unsigned keys[slots];
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < slots; ++i) {
    const int expert = i * 32 + lane;
    keys[i] = 0;
    if (expert >= rule.experts) continue;
    const float logit = from[expert];
    most = fmaxf(most, logit);
    if (!rule.is_softmax) {
      scores[expert] = rule.is_sigmoid ? 1.0F / (1.0F + expf(-logit))
                                       : sqrtf(fmaxf(logit, 0.0F) + log1pf(expf(-fabsf(logit))));
      choice_scores[expert] = scores[expert] + (bias != nullptr ? bias[expert] : 0.0F);
      keys[i] = ordered(choice_scores[expert]);
    } else {
      keys[i] = ordered(logit);
    }
  }
  float total = 1.0F;
  if (rule.is_softmax) {
    most = cuda::warp_max(most);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < slots; ++i)
      if (i * 32 + lane < rule.experts) sum += scores[i * 32 + lane] = expf(from[i * 32 + lane] - most);
    total = cuda::warp_sum(sum);
  }
  __syncwarp();
  if (!rule.is_softmax && rule.kept_groups < rule.groups)
    keep_best_groups(keys, lane, rule.experts, rule.groups, rule.kept_groups, shared + 2 * rule.experts,
                     choice_scores);

  float chosen_sum = rule.is_softmax ? 0.0F : 1e-20F;
  for (int round = 0; round < rule.k; ++round) {
    unsigned top = 0;
    const int expert = largest(keys, lane, &top);
#pragma unroll
    for (int i = 0; i < slots; ++i)
      if (expert == i * 32 + lane) keys[i] = 0;
    chosen_sum += scores[expert] / total;
    if (lane == 0) {
      ids[blockIdx.x * ids_stride + round] = expert;
      weights.row(blockIdx.x)[round] = scores[expert] / total;
    }
  }
  if (lane == 0)
    for (int round = 0; round < rule.k; ++round) {
      float& weight = weights.row(blockIdx.x)[round];
      weight = (rule.normalizes ? weight / chosen_sum : weight) * rule.scale;
    }
}

}  // namespace

void run(Cuda& cuda, const Route& op) {
  const std::int64_t tokens = op.logits.dim(0);
  const auto experts = static_cast<int>(op.logits.dim(1));
  if (tokens == 0) return;
  if (experts > 32 * kMostPerLane || op.groups > kMostGroups)
    throw std::invalid_argument("routing among " + std::to_string(experts) + " experts in " +
                                std::to_string(op.groups) +
                                " groups (accepted: up to 1024 experts, 32 groups)");
  const Rule rule{.experts = experts,
                  .k = static_cast<int>(op.ids.dim(1)),
                  .groups = op.groups,
                  .kept_groups = op.kept_groups,
                  .scale = op.scale,
                  .is_softmax = op.rule == RouteRule::softmax,
                  .is_sigmoid = op.rule == RouteRule::grouped_sigmoid_bias,
                  .normalizes = op.normalize};
  const cuda::LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(tokens)),
      .threads = 32,
      .shared_bytes = (2 * experts + kMostGroups) * static_cast<int>(sizeof(float))};
  const float* bias = op.bias.empty() ? nullptr : op.bias.f32();
  const auto kernel = experts <= 128 ? route<4> : experts <= 256 ? route<8> : route<kMostPerLane>;
  cuda::launch(kernel, shape, cuda.state().stream, true, cuda::rows_of(op.logits), bias, op.ids.i32(),
               op.ids.stride(0), cuda::rows_of(op.weights), rule);
}

}  // namespace moetune
