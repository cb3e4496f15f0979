// Causal attention of many tokens of few sequences: a block takes 128 neighbouring tokens of one head and
// walks over the keys that any of them sees, so that a key is read once for all of them. Start at
// attends_as_prompt().
#pragma once

#include "kernels/cuda/attend.cuh"

namespace moetune::cuda {

// runs: neighbouring tokens of one sequence count as one; 0: not known, then every token may have its own.
bool attends_as_prompt(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs, int runs);
void attend_prompt(Cuda& cuda, const AttendShape& shape, const AttendInputs& inputs);

// attend_prompt() with wgmma: operands of bf16 in one part.
bool attends_with_hopper(Cuda& cuda, const AttendInputs& inputs);
void attend_with_hopper(Cuda& cuda, const AttendShape& shape, const AttendInputs& inputs);

// The same over MLA's compressed cache, where a row serves all heads. It needs 151 KiB of shared memory.
bool attends_latent_as_prompt(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                              const AttendInputs& inputs, int runs);
void attend_latent_prompt(Cuda& cuda, const AttendShape& shape, const AttendInputs& inputs);

}  // namespace moetune::cuda
