// Rope: rotary position embedding in place (arXiv 2104.09864).
// rope_frequencies() gives the angles per position, plain or YaRN-scaled.
#pragma once

#include <span>
#include <vector>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Rope {
  Tensor x;            // (tokens, heads, dim) f32, outer axes may be strided; rotated in place
  Tensor positions;    // (tokens) i32
  Tensor frequencies;  // (dim / 2) f32, radians per position
  float scale = 1.0F;  // on cos and sin: YaRN's attention factor
  bool interleaved = false;  // pairs (2i, 2i+1) are rotated and stay where they are; otherwise pairs (i, i + dim/2)
};
void run(Cpu& cpu, const Rope& op);

}  // namespace moetune
