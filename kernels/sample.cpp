#include "kernels/sample.h"

#include <cassert>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/grain.h"
#include "kernels/philox.h"

namespace moetune {
namespace {

std::int32_t greedy(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t token = 1; token < logits.size(); ++token)
    if (logits[token] > logits[best]) best = token;
  return static_cast<std::int32_t>(best);
}

// Gumbel noise from 24 random bits: u in (0, 1), never an end. At most -ln(-ln(1 - 2^-25)) = 17.33.
float gumbel(std::uint32_t bits) {
  const double u = (static_cast<double>(bits >> 8) + 0.5) * 0x1p-24;
  return static_cast<float>(-std::log(-std::log(u)));
}
constexpr float kLargestGumbel = 17.4F;

std::int32_t draw(std::span<const float> logits, float temperature, std::uint64_t seed, std::uint32_t key) {
  std::size_t best = 0;
  float best_score = -std::numeric_limits<float>::infinity();
  std::size_t drawn_block = logits.size();
  std::array<std::uint32_t, 4> random{};
  for (std::size_t token = 0; token < logits.size(); ++token) {
    const float scaled = logits[token] / temperature;
    if (!(scaled + kLargestGumbel > best_score))
      continue;  // cannot win whatever is drawn: most of the vocabulary
    if (token / 4 != drawn_block) {
      drawn_block = token / 4;
      random = philox({static_cast<std::uint32_t>(drawn_block), key, 0, 0}, seed);
    }
    const float score = scaled + gumbel(random[token % 4]);
    if (score > best_score) {
      best = token;
      best_score = score;
    }
  }
  return static_cast<std::int32_t>(best);
}

}  // namespace

void run(Cpu& cpu, const Sample& op) {
  const std::int64_t vocabulary = op.logits.dim(1);
  assert(vocabulary >= 1 && op.ids.dim(0) == op.logits.dim(0) && op.temperature >= 0.0F);
  cpu.pool().parallel_for(op.logits.dim(0), grain_for(vocabulary), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::span<const float> logits(op.logits.f32() + row * op.logits.stride(0),
                                          static_cast<std::size_t>(vocabulary));
      op.ids.i32()[row] = op.temperature == 0.0F ? greedy(logits)
                                                 : draw(logits, op.temperature, op.seed,
                                                        static_cast<std::uint32_t>(op.keys.i32()[row]));
    }
  });
}

}  // namespace moetune
