#include "kernels/synthetic_logits.h"

#include "kernels/grain.h"
#include "kernels/philox.h"

namespace moetune {
namespace {

// Four bytes of a word, less their mean: nearly normal.
int draw(std::uint32_t word) {
  return static_cast<int>((word & 255U) + (word >> 8 & 255U) + (word >> 16 & 255U) + (word >> 24)) - 510;
}

float logit(const SyntheticLogits& op, std::uint32_t expert, std::uint32_t sequence, std::uint32_t position) {
  const auto hold = static_cast<std::uint32_t>(op.hold_tokens);
  const std::uint32_t fresh_draws = 2U * op.layer;  // the two kinds of draws are two layers to the generator
  // Experts do not all change at the same token.
  const std::uint32_t phase = (expert * 0x9E3779B1U + op.layer * 0x85EBCA77U) >> 8;
  const std::uint32_t period = (position + phase % hold) / hold;
  const int held = draw(philox({expert, fresh_draws + 1U, sequence, period}, op.seed)[0]);
  const auto words = philox({expert, fresh_draws, sequence, position}, op.seed);
  const int sum = op.favour_weight * op.favour.i32()[expert] + op.held_weight * held +
                  op.fresh_weight * draw(words[0]) +
                  (op.is_prediction ? 0 : op.surprise_weight * draw(words[1]));
  return static_cast<float>(sum) * (1.0F / (kSyntheticDeviation * static_cast<float>(kSyntheticWeightOne)));
}

}  // namespace

void run(Cpu& cpu, const SyntheticLogits& op) {
  const std::int64_t experts = op.logits.dim(1);
  cpu.pool().parallel_for(op.logits.dim(0), grain_for(100 * experts),
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t token = begin; token < end; ++token) {
                              float* row = op.logits.f32() + token * op.logits.stride(0);
                              for (std::int64_t expert = 0; expert < experts; ++expert)
                                row[expert] = logit(op, static_cast<std::uint32_t>(expert),
                                                    static_cast<std::uint32_t>(op.sequences.i32()[token]),
                                                    static_cast<std::uint32_t>(op.positions.i32()[token]));
                            }
                          });
}

}  // namespace moetune
