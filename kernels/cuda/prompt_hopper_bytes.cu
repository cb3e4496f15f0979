#include "kernels/cuda/prompt_hopper.cuh"

namespace moetune::cuda {

template void launch_hopper_prompt<NumberType::int8>(Cuda& cuda, const PromptGemm& op, int blocks);
template void launch_hopper_prompt<NumberType::fp8>(Cuda& cuda, const PromptGemm& op, int blocks);

}  // namespace moetune::cuda
