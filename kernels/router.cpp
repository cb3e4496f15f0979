#include "kernels/router.h"

#include "kernels/gemm.h"
#include "kernels/rms_norm.h"

namespace moetune {

void run(Cpu& cpu, const Router& op) {
  run(cpu, RmsNorm{.x = op.x, .weight = op.norm, .y = op.normed, .eps = op.eps});
  run(cpu, Gemm{.x = op.normed, .w = op.w, .y = op.route.logits});
  if (!op.synthetic.favour.empty()) {
    SyntheticLogits synthetic = op.synthetic;
    synthetic.logits = op.route.logits;
    run(cpu, synthetic);
  }
  run(cpu, op.route);
}

}  // namespace moetune
