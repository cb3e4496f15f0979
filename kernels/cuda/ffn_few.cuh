// The experts' kernels for one token, and a dense feed-forward of up to four: gate, up and activation, then
// down with the weighted sum. Other than in ffn_tiles.cuh, weights go from memory straight into registers,
// the activations are staged by the whole block, and a block runs over as many tiles as it takes to keep
// every multiprocessor busy to the end.
#pragma once

#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

// Few tokens, few choices, and the activations fit into shared memory. Known from capacities.
bool is_few(NumberType type, const FfnWork& work);

// work.activated must hold f32. Both or neither: what lies between them has no padding.
void run_gate_up_few(Cuda& cuda, NumberType type, const FfnWork& work);
void run_down_few(Cuda& cuda, NumberType type, const FfnWork& work, Rows weights, Rows y);

}  // namespace moetune::cuda
