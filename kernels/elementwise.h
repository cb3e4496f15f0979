// Add: y += x, the residual connection.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Add {
  Tensor x;  // f32, rows may be strided
  Tensor y;  // f32, same shape, added to
};
void run(Cpu& cpu, const Add& op);
void run(Cuda& cuda, const Add& op);

}  // namespace moetune
