// Scoring and top-k of one token by one warp: scores in registers, k rounds of "largest, then lowest id".
// What Route and Router have in common. Start at pick_experts().
#pragma once

#include "kernels/cuda/view.cuh"
#include "kernels/route.h"

namespace moetune::cuda {

inline constexpr int kMostPerLane = 32;  // experts of a lane: up to 1,024 in all
inline constexpr int kMostGroups = 32;
inline constexpr unsigned kAll = 0xFFFFFFFFU;

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

// What rule_of() has checked.
struct PickRule {
  int experts;
  int k;
  int groups;
  int kept_groups;
  float scale;
  bool is_softmax;
  bool is_sigmoid;  // else sqrt-softplus
  bool normalizes;
  bool ids_are_given;
};

// Shared memory of one warp, in floats.
inline int pick_floats(int experts) { return 2 * experts + kMostGroups; }

// The rule of an op whose ids are (tokens, k) among `experts`. Throws std::invalid_argument beyond the
// capacities.
PickRule rule_of(const Route& op, int experts);

// Scores of one token's experts into shared memory, and the keys by which they are chosen into registers.
// from: (experts) logits; shared: pick_floats(experts): scores, then what they are chosen by where that is
// not softmax. Returns what a score is divided by to become a weight.
template <int slots>
__device__ __forceinline__ float score_experts(const float* from, const float* bias, const PickRule& rule,
                                               float* shared, unsigned (&keys)[slots]) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float* scores = shared;
  float* choice_scores = shared + rule.experts;
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
    most = warp_max(most);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < slots; ++i)
      if (i * 32 + lane < rule.experts) sum += scores[i * 32 + lane] = expf(from[i * 32 + lane] - most);
    total = warp_sum(sum);
  }
  __syncwarp();
  if (!rule.is_softmax && rule.kept_groups < rule.groups)
    keep_best_groups(keys, lane, rule.experts, rule.groups, rule.kept_groups, shared + 2 * rule.experts,
                     choice_scores);
  __syncwarp();  // choice scores are read by all before the first is overwritten
  return total;
}

// from: (experts) logits; shared: pick_floats(experts); ids, weights: (k) of this token. Given ids are read,
// not written.
template <int slots>
__device__ __forceinline__ void pick_experts(const float* from, const float* bias, const PickRule& rule,
                                             float* shared, std::int32_t* ids, float* weights) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  unsigned keys[slots];
  const float total = score_experts(from, bias, rule, shared, keys);
  const float* scores = shared;
  float chosen_sum = rule.is_softmax ? 0.0F : 1e-20F;
  float* chosen_scores = shared + rule.experts;  // choice scores are no longer needed
  for (int round = 0; round < rule.k; ++round) {
    unsigned top = 0;
    const int expert = rule.ids_are_given ? ids[round] : largest(keys, lane, &top);
#pragma unroll
    for (int i = 0; i < slots; ++i)
      if (expert == i * 32 + lane) keys[i] = 0;
    const float score = expert >= 0 ? scores[expert] / total : 0.0F;  // -1 is given: no expert
    chosen_sum += score;
    if (lane == 0) {
      ids[round] = expert;
      chosen_scores[round] = score;
    }
  }
  __syncwarp();
  for (int round = lane; round < rule.k; round += 32)
    weights[round] =
        (rule.normalizes ? chosen_scores[round] / chosen_sum : chosen_scores[round]) * rule.scale;
}

}  // namespace moetune::cuda
