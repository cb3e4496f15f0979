#include "kernels/cuda/prompt_hopper.cuh"

namespace moetune::cuda {

template void launch_hopper_prompt<NumberType::bf16>(Cuda& cuda, const PromptGemm& op, int blocks);
template void launch_hopper_prompt<NumberType::f16>(Cuda& cuda, const PromptGemm& op, int blocks);
template bool has_hopper_prompt<NumberType::bf16>();

}  // namespace moetune::cuda
