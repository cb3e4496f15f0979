#include "kernels/elementwise.h"

#include <cassert>

#include "kernels/grain.h"

namespace moetune {

void run(Cpu& cpu, const Add& op) {
  const std::int64_t width = op.x.dim(op.x.rank() - 1);
  assert(op.x.rank() == 2 && op.y.rank() == 2 && op.y.dim(0) == op.x.dim(0) && op.y.dim(1) == width);
  cpu.pool().parallel_for(op.x.dim(0), grain_for(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* x = op.x.f32() + row * op.x.stride(0);
      float* y = op.y.f32() + row * op.y.stride(0);
      for (std::int64_t i = 0; i < width; ++i) y[i] += x[i];
    }
  });
}

}  // namespace moetune
