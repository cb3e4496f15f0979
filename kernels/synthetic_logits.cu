#include "kernels/cuda/synthetic_logits.cuh"

namespace moetune {
namespace {

__global__ void synthetic_logits(cuda::Rows logits, cuda::Synthetic op, int experts) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  for (int expert = static_cast<int>(threadIdx.x); expert < experts; expert += static_cast<int>(blockDim.x))
    logits.row(blockIdx.x)[expert] = cuda::synthetic_or(op, cuda::load_synthetic(op, blockIdx.x, expert),
                                                        static_cast<std::uint32_t>(expert), 0.0F);
}

}  // namespace

void run(Cuda& cuda, const SyntheticLogits& op) {
  if (op.logits.dim(0) == 0) return;
  cuda::launch(synthetic_logits, {.grid = dim3(static_cast<unsigned>(op.logits.dim(0))), .threads = 128},
               cuda.state().stream, true, cuda::rows_of(op.logits), cuda::synthetic_of(op),
               static_cast<int>(op.logits.dim(1)));
}

}  // namespace moetune
