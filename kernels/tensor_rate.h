// How many bf16 products a GPU's tensor cores finish when every operand is on the chip already: what a
// compute-bound op is held against. Declared everywhere, built where there is a CUDA toolkit.
#pragma once

#include "kernels/device.h"

namespace moetune {

// Floating-point operations per second, on random numbers, median of several runs of a few milliseconds: long
// enough that a card short of power has lowered its clock. Throws std::runtime_error when the GPU refuses.
double measured_tensor_flops(Cuda& cuda);

}  // namespace moetune
