// ReadMemory: reads a block and adds up its 32-bit words, which is the least that proves every byte was read.
// The rate of this op is what a memory-bound op is held against.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct ReadMemory {
  const void* data = nullptr;  // aligned to 16 bytes
  std::int64_t bytes = 0;      // a multiple of 16
  Tensor sum;                  // (1) i32, added to, modulo 2^32
};
void run(Cpu& cpu, const ReadMemory& op);
void run(Cuda& cuda, const ReadMemory& op);

}  // namespace moetune
