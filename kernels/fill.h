// Fill: every element set to one value.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Fill {
  Tensor x;  // contiguous f32
  float value = 0.0F;
};
void run(Cpu& cpu, const Fill& op);
void run(Cuda& cuda, const Fill& op);

}  // namespace moetune
