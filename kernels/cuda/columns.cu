#include "kernels/cuda/columns.cuh"

namespace moetune::cuda {
namespace {

__global__ void narrow_rows(Rows from, int in, int width, __nv_bfloat16* to) {
  let_next_start();
  wait_for_previous();
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (column >= width) return;
  const float* row = from.row(blockIdx.y);
  *reinterpret_cast<uint2*>(to + std::int64_t{blockIdx.y} * width + column) =
      packed(four_of(row, column, in, reinterpret_cast<std::uintptr_t>(row) % 16 == 0));
}

}  // namespace

void to_bf16_rows(Cuda& cuda, Rows from, int rows, int in, int width, __nv_bfloat16* to) {
  launch(narrow_rows, {.grid = dim3(blocks_for(width, 1024), static_cast<unsigned>(rows)), .threads = 256},
         cuda.state().stream, true, from, in, width, to);
}

}  // namespace moetune::cuda
