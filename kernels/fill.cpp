#include "kernels/fill.h"

#include <algorithm>
#include <cassert>

#include "kernels/grain.h"

namespace moetune {

void run(Cpu& cpu, const Fill& op) {
  assert(op.x.contiguous());
  cpu.pool().parallel_for(op.x.elements(), grain_for(1), [&](std::int64_t begin, std::int64_t end) {
    std::fill(op.x.f32() + begin, op.x.f32() + end, op.value);
  });
}

}  // namespace moetune
