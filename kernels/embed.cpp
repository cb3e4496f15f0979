#include "kernels/embed.h"

#include <cassert>

#include "kernels/grain.h"
#include "kernels/quantize.h"

namespace moetune {

void run(Cpu& cpu, const Embed& op) {
  const std::int64_t hidden = op.table.layout.in;
  assert(op.y.dim(0) == op.ids.dim(0) && op.y.dim(1) == hidden);
  cpu.pool().parallel_for(op.ids.dim(0), grain_for(4 * hidden), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int32_t id = op.ids.i32()[token];
      assert(id >= 0 && id < op.table.layout.out);
      dequantize_row(op.table, id, op.y.f32() + token * op.y.stride(0));
    }
  });
}

}  // namespace moetune
