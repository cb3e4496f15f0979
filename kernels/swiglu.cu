#include "kernels/cuda/view.cuh"
#include "kernels/swiglu.h"

namespace moetune {
namespace {

__global__ void swiglu(cuda::Rows gate, cuda::Rows up, cuda::Rows y, std::int64_t rows, std::int64_t inner) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= rows * inner) return;
  const std::int64_t row = index / inner;
  const std::int64_t column = index % inner;
  const float g = gate.row(row)[column];
  y.row(row)[column] = g / (1.0F + __expf(-g)) * up.row(row)[column];
}

}  // namespace

void run(Cuda& cuda, const SwiGlu& op) {
  const std::int64_t rows = op.gate.dim(0);
  const std::int64_t inner = op.gate.dim(1);
  if (rows * inner == 0) return;
  cuda::launch(swiglu, {.grid = cuda::blocks_for(rows * inner, 256), .threads = 256}, cuda.state().stream,
               true, cuda::rows_of(op.gate), cuda::rows_of(op.up), cuda::rows_of(op.y), rows, inner);
}

}  // namespace moetune
