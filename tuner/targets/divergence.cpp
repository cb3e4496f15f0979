#include "tuner/targets/divergence.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace moetune {
namespace {

// log of the sum of exp(logit), computed around the largest so that nothing overflows.
double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

}  // namespace

std::int32_t most_likely(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

PositionDivergence compare_position(std::span<const float> reference, std::span<const float> logits,
                                    std::int32_t next_token) {
  assert(reference.size() == logits.size() && !logits.empty());
  const double reference_norm = log_sum_exp(reference);
  const double norm = log_sum_exp(logits);
  PositionDivergence result;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected = reference[i];
    const double found = logits[i];
    const double expected_log_p = expected - reference_norm;
    result.kl += std::exp(expected_log_p) * (expected_log_p - (found - norm));
    result.reference_power += expected * expected;
    result.difference_power += (expected - found) * (expected - found);
  }
  result.kl = std::max(result.kl, 0.0);  // rounding leaves equal distributions a hair below
  // max_element and the sums above may step over a NaN or an infinity: the powers never do.
  if (!std::isfinite(result.difference_power)) result.kl = std::nan("");
  result.same_top = most_likely(reference) == most_likely(logits);
  const auto next = static_cast<std::size_t>(next_token);
  result.surprise_change =
      (norm - static_cast<double>(logits[next])) - (reference_norm - static_cast<double>(reference[next]));
  return result;
}

double kl_divergence(std::span<const float> reference, std::span<const float> logits) {
  return compare_position(reference, logits, 0).kl;
}

}  // namespace moetune
