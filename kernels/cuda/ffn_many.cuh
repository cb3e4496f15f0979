// The experts' kernels for steps in which an expert has a few tokens: a block stages the tokens of an expert
// and its warps run over the expert's tiles, each for itself. Start at is_many().
#pragma once

#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

// Weights of 4 bits, whose unpacking costs more than reading them.
bool has_nibbles(NumberType type);

// Sorted pairs, few to an expert, and the rows of sixteen (or eight) tokens fit into shared memory. Known
// from capacities.
bool is_many(NumberType type, const FfnWork& work);

// Both or neither: what lies between them, bf16 rows, has no padding.
void run_gate_up_many(Cuda& cuda, NumberType type, const FfnWork& work);
void run_down_many(Cuda& cuda, NumberType type, const FfnWork& work, float* rows, std::int64_t token_stride,
                   std::int64_t choice_stride);

}  // namespace moetune::cuda
