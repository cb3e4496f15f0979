#include "kernels/cuda/prompt_hopper.cuh"

namespace moetune::cuda {

template void launch_hopper_prompt<NumberType::int4>(Cuda& cuda, const PromptGemm& op, int blocks);
template void launch_hopper_prompt<NumberType::int4_g32>(Cuda& cuda, const PromptGemm& op, int blocks);
template void launch_hopper_prompt<NumberType::mxfp4>(Cuda& cuda, const PromptGemm& op, int blocks);

}  // namespace moetune::cuda
