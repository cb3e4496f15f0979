// Rope: rotary position embedding in place (arXiv 2104.09864).
// rope_frequencies() gives the angles per position, plain or YaRN-scaled (arXiv 2309.00071), with the
// arithmetic and the float32 roundings of transformers 5.17, whose checkpoints we read.
#pragma once

#include <optional>
#include <vector>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Rope {
  Tensor x;                  // (tokens, heads, dim) f32, outer axes may be strided; rotated in place
  Tensor positions;          // (tokens) i32
  Tensor frequencies;        // (dim / 2) f32, radians per position
  float scale = 1.0F;        // on cos and sin: YaRN's attention factor
  bool interleaved = false;  // pairs (2i, 2i+1), which stay where they are; otherwise pairs (i, i + dim/2)
};
void run(Cpu& cpu, const Rope& op);
void run(Cuda& cuda, const Rope& op);

struct YarnParameters {
  double factor = 1.0;            // how much longer the context became
  double original_context = 0.0;  // positions before that
  double beta_fast = 32.0;      // rotations over the original context above which a frequency stays as it is
  double beta_slow = 1.0;       // and below which it is divided by the whole factor
  double mscale = 0.0;          // 0: absent
  double mscale_all_dim = 0.0;  // 0: absent
  std::optional<double> attention_factor;  // empty: computed from the above
  bool truncate = true;                    // round the ramp's ends to whole frequencies
};

struct RopeFrequencies {
  std::vector<float> radians_per_position;  // dim / 2
  double attention_factor = 1.0;            // Rope::scale
};

// dim: rotated elements per head, even.
RopeFrequencies rope_frequencies(double theta, int dim,
                                 const std::optional<YarnParameters>& yarn = std::nullopt);

// YaRN's temperature: 1 + 0.1 mscale ln(factor), 1 without scaling. DeepSeek multiplies its softmax scale by
// the square of yarn_mscale(factor, mscale_all_dim) where mscale_all_dim is given.
double yarn_mscale(double factor, double mscale = 1.0);

}  // namespace moetune
