// Loops over one row of floats, with SIMD chosen at run time.
#pragma once

#include <cstdint>

namespace moetune {

// y = silu(gate) * up, over count elements; y may be gate or up.
void swiglu_row(const float* gate, const float* up, float* y, std::int64_t count);

// y = x / sqrt(mean(x^2) + eps) * weight, over width elements; y may be x.
void rms_norm_row(const float* x, const float* weight, float* y, std::int64_t width, float eps);

// scores[i] = exp(scale * scores[i] - largest of all scale * scores); returns their sum. count >= 1, scale >
// 0.
float exponentials(float* scores, std::int64_t count, float scale);

}  // namespace moetune
