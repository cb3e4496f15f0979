// The device's steady clock.
#pragma once

#include <cstdint>

namespace moetune::cuda {

// Nanoseconds, the same on all multiprocessors; it may tick in steps of a microsecond.
__device__ __forceinline__ std::int64_t now_ns() {
  std::int64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

}  // namespace moetune::cuda
