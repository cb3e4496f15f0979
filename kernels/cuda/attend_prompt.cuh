// Causal attention of many tokens of few sequences: a block takes 128 neighbouring tokens of one head and walks over the keys
// that any of them sees, so that a key is read once for all of them. Start at attends_as_prompt().
#pragma once

#include "kernels/cuda/attend.cuh"

namespace moetune::cuda {

// runs: neighbouring tokens of one sequence count as one; 0: not known, then every token may have its own.
bool attends_as_prompt(NumberType cache_type, const AttendShape& shape, const AttendInputs& inputs, int runs);
void attend_prompt(Cuda& cuda, const AttendShape& shape, const AttendInputs& inputs);

}  // namespace moetune::cuda
