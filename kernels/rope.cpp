#include "kernels/rope.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

#include "kernels/grain.h"

namespace moetune {
namespace {

// The (fractional) index of the frequency that turns `rotations` times over the original context.
double correction_index(double rotations, double theta, int dim, double original_context) {
  return dim * std::log(original_context / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(theta));
}

double attention_factor_of(const YarnParameters& yarn) {
  if (yarn.attention_factor) return *yarn.attention_factor;
  if (yarn.mscale != 0.0 && yarn.mscale_all_dim != 0.0)
    return yarn_mscale(yarn.factor, yarn.mscale) / yarn_mscale(yarn.factor, yarn.mscale_all_dim);
  return yarn_mscale(yarn.factor);
}

// Frequencies that turn often keep their angle (extrapolation), slow ones are divided by the factor
// (interpolation), and a linear ramp joins the two.
void apply_yarn(std::vector<float>& frequencies, double theta, int dim, const YarnParameters& yarn) {
  double low = correction_index(yarn.beta_fast, theta, dim, yarn.original_context);
  double high = correction_index(yarn.beta_slow, theta, dim, yarn.original_context);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float wavelength =
        std::pow(static_cast<float>(theta), static_cast<float>(2 * i) / static_cast<float>(dim));
    const float interpolated = 1.0F / (static_cast<float>(yarn.factor) * wavelength);
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
    frequencies[i] = interpolated * (1.0F - kept) + frequencies[i] * kept;
  }
}

void rotate(float& first, float& second, float cosine, float sine) {
  const float before = first;
  first = before * cosine - second * sine;
  second = second * cosine + before * sine;
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

RopeFrequencies rope_frequencies(double theta, int dim, const std::optional<YarnParameters>& yarn) {
  assert(dim >= 0 && dim % 2 == 0);
  RopeFrequencies result;
  for (int i = 0; i < dim; i += 2)
    result.radians_per_position.push_back(
        1.0F / std::pow(static_cast<float>(theta), static_cast<float>(i) / static_cast<float>(dim)));
  if (yarn) {
    apply_yarn(result.radians_per_position, theta, dim, *yarn);
    result.attention_factor = attention_factor_of(*yarn);
  }
  return result;
}

void run(Cpu& cpu, const Rope& op) {
  const std::int64_t heads = op.x.dim(1);
  const std::int64_t pairs = op.x.dim(2) / 2;
  assert(op.x.rank() == 3 && op.x.dim(2) % 2 == 0 && op.frequencies.dim(0) == pairs);
  const std::int64_t work_per_token =
      pairs * (16 + 2 * heads);  // a sine and a cosine cost about 16 multiply-adds
  cpu.pool().parallel_for(op.x.dim(0), grain_for(work_per_token), [&](std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> turns;  // cosines, then sines
    turns.resize(static_cast<std::size_t>(2 * pairs));
    float* cosines = turns.data();
    float* sines = cosines + pairs;
    for (std::int64_t token = begin; token < end; ++token) {
      const auto position = static_cast<float>(op.positions.i32()[token]);
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float angle = position * op.frequencies.f32()[i];
        cosines[i] = std::cos(angle) * op.scale;
        sines[i] = std::sin(angle) * op.scale;
      }
      for (std::int64_t head = 0; head < heads; ++head) {
        float* x = op.x.f32() + token * op.x.stride(0) + head * op.x.stride(1);
        if (op.interleaved)
          for (std::int64_t i = 0; i < pairs; ++i) rotate(x[2 * i], x[2 * i + 1], cosines[i], sines[i]);
        else
          for (std::int64_t i = 0; i < pairs; ++i) rotate(x[i], x[i + pairs], cosines[i], sines[i]);
      }
    }
  });
}

}  // namespace moetune
