#include "kernels/expert_ffn.h"

#include <cassert>

#include "kernels/grain.h"
#include "kernels/reference.h"

namespace moetune {

void run(Cpu&, const ExpertFfn& op) { reference::run(op); }

void run(Cpu& cpu, const Combine& op) {
  const std::int64_t k = op.rows.dim(1);
  const std::int64_t hidden = op.rows.dim(2);
  assert(op.weights.dim(1) == k && op.y.dim(1) == hidden);
  cpu.pool().parallel_for(op.rows.dim(0), grain_for(k * hidden), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      float* y = op.y.f32() + token * op.y.stride(0);
      for (std::int64_t choice = 0; choice < k; ++choice) {
        const float weight = op.weights.f32()[token * op.weights.stride(0) + choice];
        const float* row = op.rows.f32() + token * op.rows.stride(0) + choice * op.rows.stride(1);
        for (std::int64_t i = 0; i < hidden; ++i) y[i] += weight * row[i];
      }
    }
  });
}

}  // namespace moetune
