// Start at run(). Sorting is by insertion: k is small and the list stays in registers or L1.
#include "kernels/route.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/grain.h"

namespace moetune {
namespace {

// The indices of the k largest scores, best first; equal scores in order of index. A score of -infinity is
// chosen last. NaN compares as smaller than nothing, so even then the indices are k different ones.
void choose_largest(std::span<const float> scores, std::span<std::int32_t> chosen) {
  std::size_t count = 0;
  for (std::size_t index = 0; index < scores.size(); ++index) {
    std::size_t place = count;
    while (place > 0 && scores[index] > scores[static_cast<std::size_t>(chosen[place - 1])]) --place;
    if (place == chosen.size()) continue;
    if (count < chosen.size()) ++count;
    for (std::size_t i = count - 1; i > place; --i) chosen[i] = chosen[i - 1];
    chosen[place] = static_cast<std::int32_t>(index);
  }
  assert(count == chosen.size());
}

float sum_of_best_two(std::span<const float> scores) {
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (const float score : scores) {
    second = std::max(second, std::min(best, score));
    best = std::max(best, score);
  }
  return scores.size() == 1 ? best : best + second;
}

// Experts outside the best groups get -infinity.
void keep_best_groups(std::span<float> choice_scores, int groups, int kept_groups) {
  if (kept_groups >= groups) return;
  const std::size_t per_group = choice_scores.size() / static_cast<std::size_t>(groups);
  std::vector<float> group_scores;
  for (std::size_t begin = 0; begin < choice_scores.size(); begin += per_group)
    group_scores.push_back(sum_of_best_two(choice_scores.subspan(begin, per_group)));
  std::vector<std::int32_t> kept(static_cast<std::size_t>(kept_groups));
  choose_largest(group_scores, kept);
  for (std::size_t group = 0; group < group_scores.size(); ++group)
    if (std::find(kept.begin(), kept.end(), static_cast<std::int32_t>(group)) == kept.end())
      std::ranges::fill(choice_scores.subspan(group * per_group, per_group),
                        -std::numeric_limits<float>::infinity());
}

// logits -> the scores that become weights.
void to_scores(RouteRule rule, std::span<const float> logits, std::span<float> scores) {
  if (rule == RouteRule::grouped_sigmoid_bias) {
    std::ranges::transform(logits, scores.begin(),
                           [](float logit) { return 1.0F / (1.0F + std::exp(-logit)); });
    return;
  }
  if (rule == RouteRule::sqrt_softplus_bias) {
    std::ranges::transform(logits, scores.begin(), [](float logit) {
      return std::sqrt(std::max(logit, 0.0F) + std::log1p(std::exp(-std::fabs(logit))));
    });
    return;
  }
  const float largest = *std::ranges::max_element(logits);
  float sum = 0.0F;
  for (std::size_t i = 0; i < logits.size(); ++i) sum += scores[i] = std::exp(logits[i] - largest);
  for (float& score : scores) score /= sum;
}

// Scores -> those by which experts are chosen.
void add_bias_and_limit(const Route& op, std::span<float> scores) {
  if (!op.bias.empty())
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] += op.bias.f32()[i];
  keep_best_groups(scores, op.groups, op.kept_groups);
}

}  // namespace

void choice_scores(const Route& op, std::span<const float> logits, std::span<float> scores) {
  to_scores(op.rule, logits, scores);
  if (op.rule == RouteRule::softmax) return;
  add_bias_and_limit(op, scores);
}

void run(Cpu& cpu, const Route& op) {
  const std::int64_t experts = op.logits.dim(1);
  const std::int64_t k = op.ids.dim(1);
  assert(k >= 1 && k <= experts && experts % op.groups == 0 && k <= experts / op.groups * op.kept_groups);
  assert(op.weights.dim(1) == k && (op.bias.empty() || op.bias.dim(0) == experts));
  cpu.pool().parallel_for(
      op.logits.dim(0), grain_for(16 * experts), [&](std::int64_t begin, std::int64_t end) {
        thread_local std::vector<float> scores;
        thread_local std::vector<float> chosen_by;
        scores.resize(static_cast<std::size_t>(experts));
        for (std::int64_t token = begin; token < end; ++token) {
          const std::span logits(op.logits.f32() + token * op.logits.stride(0), scores.size());
          const std::span ids(op.ids.i32() + token * op.ids.stride(0), static_cast<std::size_t>(k));
          const std::span weights(op.weights.f32() + token * op.weights.stride(0),
                                  static_cast<std::size_t>(k));
          to_scores(op.rule, logits, scores);
          if (op.ids_are_given) {
            assert(std::ranges::all_of(ids, [&](std::int32_t id) { return id >= -1 && id < experts; }));
          } else if (op.rule == RouteRule::softmax) {
            choose_largest(logits, ids);  // the order of the probabilities, without ties made by rounding
          } else {
            chosen_by = scores;
            add_bias_and_limit(op, chosen_by);
            choose_largest(chosen_by, ids);
          }
          float sum = op.rule == RouteRule::softmax ? 0.0F : 1e-20F;
          for (std::size_t i = 0; i < weights.size(); ++i)
            sum += weights[i] = ids[i] < 0 ? 0.0F : scores[static_cast<std::size_t>(ids[i])];
          for (float& weight : weights) weight = (op.normalize ? weight / sum : weight) * op.scale;
        }
      });
}

}  // namespace moetune
