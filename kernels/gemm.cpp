#include "kernels/gemm.h"

#include <cassert>
#include <vector>

#include "kernels/grain.h"
#include "kernels/simd/dot_rows.h"

namespace moetune {

void run(Cpu& cpu, const Gemm& op) {
  const MatrixLayout& layout = op.w.layout;
  const std::int64_t tokens = op.x.dim(0);
  assert(op.x.dim(1) == layout.in && op.y.dim(0) == tokens && op.y.dim(1) == layout.out);
  assert(op.bias.empty() || op.bias.dim(0) == layout.out);

  thread_local std::vector<const float*> x;
  thread_local std::vector<float*> y;
  x.clear();
  y.clear();
  for (std::int64_t token = 0; token < tokens; ++token) {
    x.push_back(op.x.f32() + token * op.x.stride(0));
    y.push_back(op.y.f32() + token * op.y.stride(0));
  }
  DotRows work{.w = op.w, .x = x.data(), .y = y.data(), .tokens = tokens};
  work.bias = op.bias.empty() ? nullptr : op.bias.f32();
  work.accumulate = op.accumulate;
  cpu.pool().parallel_for(layout.out, grain_for(layout.in * tokens),
                          [&](std::int64_t begin, std::int64_t end) {
                            DotRows piece = work;
                            piece.row_begin = begin;
                            piece.row_end = end;
                            dot_rows(piece);
                          });
}

}  // namespace moetune
