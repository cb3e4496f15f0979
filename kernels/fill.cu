#include "kernels/cuda/view.cuh"
#include "kernels/fill.h"

namespace moetune {
namespace {

__global__ void fill(float* x, std::int64_t count, float value) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < count) x[index] = value;
}

}  // namespace

void run(Cuda& cuda, const Fill& op) {
  if (op.x.elements() == 0) return;
  cuda::launch(fill, {.grid = cuda::blocks_for(op.x.elements(), 256), .threads = 256}, cuda.state().stream,
               true, op.x.f32(), op.x.elements(), op.value);
}

}  // namespace moetune
