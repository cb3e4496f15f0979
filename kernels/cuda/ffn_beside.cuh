// The experts of one token and, beside them in the same two kernels, what every token takes: the shared
// experts. Their weights are asked for while the router still decides, and they cost no launch of their own.
#pragma once

#include "kernels/cuda/ffn_tiles.cuh"

namespace moetune::cuda {

// Of one type each; the shared ones of the routed ones' type or bf16. Known from capacities: what is cached
// or chosen makes no difference.
bool takes_shared_beside(NumberType type, const FfnWork& work, NumberType shared_type, const FfnWork& shared);

// work: one token's choices; shared: everyone, of the same token, with an activated row of its own. Both f32.
void run_gate_up_beside(Cuda& cuda, NumberType type, const FfnWork& work, NumberType shared_type,
                        const FfnWork& shared);
void run_down_beside(Cuda& cuda, NumberType type, const FfnWork& work, NumberType shared_type,
                     const FfnWork& shared, Rows weights, Rows y);

}  // namespace moetune::cuda
