#include "kernels/cuda/view.cuh"
#include "kernels/rms_norm.h"

namespace moetune {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    rms_norm(cuda::Rows x, const float* weight, cuda::Rows y, std::int64_t width, float eps) {
  __shared__ float partial[kThreads / 32];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const float* from = x.row(blockIdx.x);
  float squares = 0.0F;
  for (std::int64_t column = threadIdx.x; column < width; column += kThreads)
    squares += from[column] * from[column];
  squares = cuda::warp_sum(squares);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0.0F;
  for (const float part : partial) squares += part;
  const float inverse = rsqrtf(squares / static_cast<float>(width) + eps);
  float* to = y.row(blockIdx.x);
  for (std::int64_t column = threadIdx.x; column < width; column += kThreads)
    to[column] = from[column] * inverse * weight[column];
}

}  // namespace

void run(Cuda& cuda, const RmsNorm& op) {
  if (op.x.dim(0) == 0) return;
  cuda::launch(rms_norm, {.grid = dim3(static_cast<unsigned>(op.x.dim(0))), .threads = kThreads},
               cuda.state().stream, true, cuda::rows_of(op.x), op.weight.f32(), cuda::rows_of(op.y),
               op.x.dim(1), op.eps);
}

}  // namespace moetune
