#include "kernels/simd/vector_math.h"

#include <cmath>
#include <limits>

#include "kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/vector_math.cpp"
#include "hwy/foreach_target.h"

// Only after foreach_target.h, which compiles this file once per instruction set.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/simd/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace moetune::HWY_NAMESPACE {
namespace {

const std::byte* bytes(const float* x) { return reinterpret_cast<const std::byte*>(x); }

// exp() of a number that is at most 0; Highway's is good to one unit in the last place.
HWY_INLINE Vector exp_of_negative(Vector x) { return hn::Exp(Floats(), x); }

// x / (1 + exp(-x)), with the exponential of -|x| only, which cannot overflow.
HWY_INLINE Vector silu(Vector x) {
  const Floats floats;
  const Vector one = hn::Set(floats, 1.0F);
  const Vector decayed = exp_of_negative(hn::Neg(hn::Abs(x)));
  const Vector share = hn::IfThenElse(hn::Lt(x, hn::Zero(floats)), decayed, one);
  return hn::Mul(x, hn::Div(share, hn::Add(one, decayed)));
}

void swiglu_row(const float* gate, const float* up, float* y, std::int64_t count) {
  const Floats floats;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::Mul(silu(hn::LoadU(floats, gate + i)), hn::LoadU(floats, up + i)), floats, y + i);
  if (i == count) return;
  const Vector rest = hn::Mul(silu(load_some<DecodeF32>(bytes(gate + i), count - i)),
                              load_some<DecodeF32>(bytes(up + i), count - i));
  store_some(rest, y + i, count - i);
}

// Four sums at once, because one chain of additions would wait for each of its links.
float sum_of_squares(const float* x, std::int64_t count) {
  const Floats floats;
  Vector sums[4] = {hn::Zero(floats), hn::Zero(floats), hn::Zero(floats), hn::Zero(floats)};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int part = 0; part < 4; ++part) {
      const Vector values = hn::LoadU(floats, x + i + part * kLanes);
      sums[part] = hn::MulAdd(values, values, sums[part]);
    }
  }
  for (; i < count; i += kLanes) {
    const Vector values = load_some<DecodeF32>(bytes(x + i), std::min(kLanes, count - i));
    sums[0] = hn::MulAdd(values, values, sums[0]);
  }
  return hn::GetLane(hn::SumOfLanes(floats, hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

void rms_norm_row(const float* x, const float* weight, float* y, std::int64_t width, float eps) {
  const Floats floats;
  const float inverse = 1.0F / std::sqrt(sum_of_squares(x, width) / static_cast<float>(width) + eps);
  const Vector inverses = hn::Set(floats, inverse);
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes)
    hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(floats, x + i), inverses), hn::LoadU(floats, weight + i)), floats,
               y + i);
  for (; i < width; ++i) y[i] = x[i] * inverse * weight[i];
}

float exponentials(float* scores, std::int64_t count, float scale) {
  const Floats floats;
  const std::int64_t whole = count / kLanes * kLanes;
  Vector largest_seen = hn::Set(floats, -std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < whole; i += kLanes)
    largest_seen = hn::Max(largest_seen, hn::LoadU(floats, scores + i));
  float largest = hn::GetLane(hn::MaxOfLanes(floats, largest_seen));
  for (std::int64_t i = whole; i < count; ++i) largest = std::max(largest, scores[i]);

  const Vector scales = hn::Set(floats, scale);
  const Vector offsets = hn::Set(floats, scale * largest);
  // Not above 0 even where scale * score is rounded up.
  const auto exponential = [&](Vector values) {
    return exp_of_negative(hn::Min(hn::Sub(hn::Mul(values, scales), offsets), hn::Zero(floats)));
  };
  Vector sums = hn::Zero(floats);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    const Vector values = exponential(hn::LoadU(floats, scores + i));
    hn::StoreU(values, floats, scores + i);
    sums = hn::Add(sums, values);
  }
  float sum = hn::GetLane(hn::SumOfLanes(floats, sums));
  if (whole < count) {
    store_some(exponential(load_some<DecodeF32>(bytes(scores + whole), count - whole)), scores + whole,
               count - whole);
    for (std::int64_t i = whole; i < count; ++i) sum += scores[i];
  }
  return sum;
}

}  // namespace
}  // namespace moetune::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moetune {
HWY_EXPORT(swiglu_row);
HWY_EXPORT(rms_norm_row);
HWY_EXPORT(exponentials);

void swiglu_row(const float* gate, const float* up, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(swiglu_row)(gate, up, y, count);
}
void rms_norm_row(const float* x, const float* weight, float* y, std::int64_t width, float eps) {
  HWY_DYNAMIC_DISPATCH(rms_norm_row)(x, weight, y, width, eps);
}
float exponentials(float* scores, std::int64_t count, float scale) {
  return HWY_DYNAMIC_DISPATCH(exponentials)(scores, count, scale);
}

}  // namespace moetune
#endif  // HWY_ONCE
