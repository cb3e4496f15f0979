// How far one distribution over the next token is from another. Everything in nats, sums in double.
#pragma once

#include <cstdint>
#include <span>

namespace moetune {

// KL(softmax(reference) || softmax(logits)) of one position; both of the vocabulary's length. NaN when a
// logit is not finite.
double kl_divergence(std::span<const float> reference, std::span<const float> logits);

struct PositionDivergence {
  double kl = 0.0;                // nats; NaN when a logit is not finite
  bool same_top = false;          // the most likely token is the same; ties go to the lower id
  double surprise_change = 0.0;   // -log p(next token) here minus there
  double reference_power = 0.0;   // |reference logits|^2
  double difference_power = 0.0;  // |difference|^2
};
PositionDivergence compare_position(std::span<const float> reference, std::span<const float> logits,
                                    std::int32_t next_token);

// Index of the largest value; ties go to the lower index.
std::int32_t most_likely(std::span<const float> logits);

}  // namespace moetune
