// Sample: the next token of each row of logits; greedy at temperature 0, otherwise softmax sampling with a
// counter-based generator keyed by (seed, row key), so that the same key gives the same token on every
// device.
//
// Softmax sampling is done by the Gumbel-max trick: the largest of logit / temperature + Gumbel noise, one
// draw per (row key, token). Nothing is summed, so the order in which a device visits the vocabulary cannot
// matter.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

struct Sample {
  Tensor logits;  // (rows, vocabulary) f32
  Tensor keys{};  // (rows) i32, what makes a draw unique (position); only read when temperature > 0
  Tensor ids;     // (rows) i32; ties go to the lower token id
  float temperature = 0.0F;
  std::uint64_t seed = 0;
};
void run(Cpu& cpu, const Sample& op);
void run(Cuda& cuda, const Sample& op);

}  // namespace moetune
