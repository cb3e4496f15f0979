#include "kernels/simd/instruction_set.h"

#include "kernels/simd/targets.h"

#include <hwy/targets.h>

namespace moetune {

std::string simd_instruction_set() {
  // Bits are in order of preference, the lowest set one is what dynamic dispatch takes.
  const std::int64_t usable = hwy::SupportedTargets() & static_cast<std::int64_t>(HWY_TARGETS);
  return usable == 0 ? "none" : hwy::TargetName(usable & -usable);
}

}  // namespace moetune
