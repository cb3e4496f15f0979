// Inputs that lose nothing where an op rounds to bf16: only the order of summation differs then.
#pragma once

#include <initializer_list>

#include "kernels/number_convert.h"
#include "tests/support/tensors.h"

namespace moetune::testing {

// f32, uniform in [-1, 1), rounded to bf16.
inline OwnedTensor bf16_floats(std::initializer_list<std::int64_t> shape, unsigned seed) {
  OwnedTensor tensor = random_floats(shape, seed);
  for (std::int64_t i = 0; i < tensor.view().elements(); ++i)
    tensor.view().f32()[i] = f32_from_bf16(bf16_from_f32(tensor.view().f32()[i]));
  return tensor;
}

}  // namespace moetune::testing
