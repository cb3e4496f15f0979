// SwiGlu: y = silu(gate) * up (arXiv 2002.05202).
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct SwiGlu {
  Tensor gate;  // (rows, inner) f32, rows may be strided
  Tensor up;    // (rows, inner) f32, rows may be strided
  Tensor y;     // (rows, inner) f32; may be gate
};
void run(Cpu& cpu, const SwiGlu& op);
void run(Cuda& cuda, const SwiGlu& op);

}  // namespace moetune
