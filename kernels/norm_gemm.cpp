#include "kernels/norm_gemm.h"

#include "kernels/gemm.h"
#include "kernels/rms_norm.h"

namespace moetune {

void run(Cpu& cpu, const NormGemm& op) {
  run(cpu, RmsNorm{.x = op.x, .weight = op.norm, .y = op.normed, .eps = op.eps});
  for (const NormGemm::Part& part : op.parts)
    if (!part.w.empty()) run(cpu, Gemm{.x = op.normed, .w = part.w, .y = part.y, .bias = part.bias});
}

}  // namespace moetune
