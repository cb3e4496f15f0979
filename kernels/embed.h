// Embed: rows of the embedding table for token ids.
#pragma once

#include "kernels/device.h"
#include "kernels/tensor.h"
#include "kernels/weight_matrix.h"

namespace moetune {

struct Embed {
  WeightMatrix table;  // (vocabulary, hidden)
  Tensor ids;          // (tokens) i32, each below vocabulary
  Tensor y;            // (tokens, hidden) f32
};
void run(Cpu& cpu, const Embed& op);
void run(Cuda& cuda, const Embed& op);

}  // namespace moetune
