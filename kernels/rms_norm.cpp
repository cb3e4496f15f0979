#include "kernels/rms_norm.h"

#include <cassert>

#include "kernels/grain.h"
#include "kernels/simd/vector_math.h"

namespace moetune {

void run(Cpu& cpu, const RmsNorm& op) {
  const std::int64_t width = op.x.dim(1);
  assert(op.weight.dim(0) == width && op.y.dim(0) == op.x.dim(0) && op.y.dim(1) == width);
  cpu.pool().parallel_for(op.x.dim(0), grain_for(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      rms_norm_row(op.x.f32() + row * op.x.stride(0), op.weight.f32(), op.y.f32() + row * op.y.stride(0),
                   width, op.eps);
  });
}

}  // namespace moetune
