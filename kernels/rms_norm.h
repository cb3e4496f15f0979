// RmsNorm: y = x / sqrt(mean(x^2) + eps) * weight, row by row (arXiv 1910.07467).
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct RmsNorm {
  Tensor x;       // (rows, width) f32, rows may be strided
  Tensor weight;  // (width) f32
  Tensor y;       // (rows, width) f32; may be x itself
  float eps = 1e-6F;
};
void run(Cpu& cpu, const RmsNorm& op);
void run(Cuda& cuda, const RmsNorm& op);

}  // namespace moetune
