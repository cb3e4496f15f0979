#include "kernels/cuda/view.cuh"
#include "kernels/elementwise.h"

namespace moetune {
namespace {

__global__ void add(cuda::Rows x, cuda::Rows y, std::int64_t rows, std::int64_t width) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= rows * width) return;
  const std::int64_t row = index / width;
  y.row(row)[index % width] += x.row(row)[index % width];
}

}  // namespace

void run(Cuda& cuda, const Add& op) {
  const std::int64_t width = op.x.dim(op.x.rank() - 1);
  const std::int64_t rows = op.x.elements() / width;
  if (rows == 0) return;
  cuda::launch(add, {.grid = cuda::blocks_for(rows * width, 256), .threads = 256}, cuda.state().stream, true,
               cuda::rows_of(op.x), cuda::rows_of(op.y), rows, width);
}

}  // namespace moetune
