#include "kernels/place_heads.h"

#include "kernels/attention.h"
#include "kernels/rms_norm.h"
#include "kernels/rope.h"

namespace moetune {
namespace {

// The first columns of every head, one row a head.
void norm_heads(Cpu& cpu, const Tensor& x, const Tensor& weight, float eps) {
  const Tensor rows = x.reshaped({x.dim(0) * x.dim(1), x.dim(2)}).columns(0, weight.dim(0));
  run(cpu, RmsNorm{.x = rows, .weight = weight, .y = rows, .eps = eps});
}

}  // namespace

void run(Cpu& cpu, const PlaceHeads& op) {
  for (const PlaceHeads::Rows& rows : op.rows) {
    if (rows.x.empty()) continue;
    if (!rows.norm.empty()) norm_heads(cpu, rows.x, rows.norm, op.eps);
    if (rows.rotated != PlaceHeads::kNoRotation)
      run(cpu, Rope{.x = rows.x.columns(rows.rotated, 2 * op.frequencies.dim(0)),
                    .positions = op.positions,
                    .frequencies = op.frequencies,
                    .scale = op.scale,
                    .interleaved = op.interleaved});
    if (!rows.cache.empty())
      run(cpu, StoreKv{.rows = rows.x.reshaped({rows.x.dim(0), rows.x.dim(1) * rows.x.dim(2)}),
                       .sequences = op.sequences,
                       .positions = op.positions,
                       .cache = rows.cache,
                       .scales = rows.scales});
  }
}

}  // namespace moetune
