#include "kernels/feed_forward.h"

#include "kernels/gemm.h"
#include "kernels/swiglu.h"

namespace moetune {

void run(Cpu& cpu, const FeedForward& op) {
  run(cpu, Gemm{.x = op.x, .w = op.gate, .y = op.gated});
  run(cpu, Gemm{.x = op.x, .w = op.up, .y = op.upped});
  run(cpu, SwiGlu{.gate = op.gated, .up = op.upped, .y = op.gated});
  run(cpu, Gemm{.x = op.gated, .w = op.down, .y = op.y, .accumulate = true});
}

}  // namespace moetune
