// Router: the norm before the experts, the router's product, scoring and top-k in one op: what decides where
// a token goes.
#pragma once

#include "kernels/device.h"
#include "kernels/route.h"
#include "kernels/synthetic_logits.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct Router {
  Tensor x;       // (tokens, hidden) f32
  Tensor norm;    // (hidden) f32 weight of the norm
  Tensor normed;  // (tokens, hidden) f32, written: what the experts read
  float eps = 1e-6F;
  WeightMatrix w;  // (experts, hidden), in rows: scores decide, so they stay as fine as they ship
  Route route;     // its logits are written too
  SyntheticLogits
      synthetic{};  // on: these logits decide in place of the product, which is computed all the same
  // Shared experts follow (MoeFfn), which ask for their weights when they start: on a GPU not before x is
  // there, whose making they would put off.
  bool is_before_shared = false;
};
void run(Cpu& cpu, const Router& op);
void run(Cuda& cuda, const Router& op);

}  // namespace moetune
