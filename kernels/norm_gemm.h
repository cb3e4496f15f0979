// NormGemm: RMSNorm and the products that read its result, y_i = w_i norm(x) (+ bias_i): what stands at the
// start of every half layer. On a GPU the norm costs no kernel of its own while the step is small.
#pragma once

#include <array>

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct NormGemm {
  struct Part {
    WeightMatrix w;  // (out, in)
    Tensor bias{};   // (out) f32, or empty
    Tensor y;        // (tokens, out) f32, rows may be strided
  };
  static constexpr int kMostParts = 3;

  Tensor x;       // (tokens, in) f32
  Tensor norm;    // (in) f32 weight of the norm
  Tensor normed;  // (tokens, in) f32, contents undefined afterwards
  float eps = 1e-6F;
  std::array<Part, kMostParts> parts{};  // used from the front; the rest have no weights
};
void run(Cpu& cpu, const NormGemm& op);
void run(Cuda& cuda, const NormGemm& op);

}  // namespace moetune
