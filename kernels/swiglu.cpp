#include "kernels/swiglu.h"

#include <cassert>

#include "kernels/grain.h"
#include "kernels/simd/vector_math.h"

namespace moetune {

void run(Cpu& cpu, const SwiGlu& op) {
  const std::int64_t inner = op.gate.dim(1);
  assert(op.up.dim(0) == op.gate.dim(0) && op.up.dim(1) == inner && op.y.dim(1) == inner);
  cpu.pool().parallel_for(op.gate.dim(0), grain_for(4 * inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      swiglu_row(op.gate.f32() + row * op.gate.stride(0), op.up.f32() + row * op.up.stride(0),
                 op.y.f32() + row * op.y.stride(0), inner);
  });
}

}  // namespace moetune
