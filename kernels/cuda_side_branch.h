// SideBranch on a GPU, for side_branch.cpp where CUDA is built in.
#pragma once

#include <memory>

#include "kernels/side_branch.h"

namespace moetune {

// Another stream of that GPU.
Cuda cuda_on_the_same_gpu(Cuda& cuda);
std::unique_ptr<SideBranch::Ties> tie_streams(const Cuda& device, const Cuda& branch);

}  // namespace moetune
