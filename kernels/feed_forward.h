// FeedForward: y += down(silu(gate x) * up x), the dense layers and shared experts.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct FeedForward {
  Tensor x;           // (tokens, hidden) f32
  WeightMatrix gate;  // (inner, hidden)
  WeightMatrix up;    // (inner, hidden)
  WeightMatrix down;  // (hidden, inner)
  Tensor gated;       // (tokens, inner) f32, contents undefined afterwards
  Tensor upped;       // (tokens, inner) f32, contents undefined afterwards
  Tensor y;           // (tokens, hidden) f32, added to
};
void run(Cpu& cpu, const FeedForward& op);
void run(Cuda& cuda, const FeedForward& op);

}  // namespace moetune
