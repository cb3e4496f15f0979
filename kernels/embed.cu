#include <stdexcept>

#include "kernels/cuda/view.cuh"
#include "kernels/embed.h"

namespace moetune {
namespace {

template <class Number>
__global__ void embed(const Number* table, std::int64_t stride, const std::int32_t* ids, cuda::Rows y,
                      std::int64_t hidden) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const Number* row = table + ids[blockIdx.y] * stride;
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column < hidden) y.row(blockIdx.y)[column] = cuda::widen(row[column]);
}

}  // namespace

void run(Cuda& cuda, const Embed& op) {
  const std::int64_t tokens = op.ids.dim(0);
  const std::int64_t hidden = op.table.layout.in;
  if (tokens == 0) return;
  cuda::with_float_type(op.table.layout.type, "an embedding table", [&](auto number) {
    using Number = decltype(number);
    cuda::launch(embed<Number>,
                 {.grid = dim3(cuda::blocks_for(hidden, 256), static_cast<unsigned>(tokens)), .threads = 256},
                 // A step starts with this op. It waits for all before it, so that what follows may read what
                 // the steps before have written (positions, a cache) ahead of wait_for_previous().
                 cuda.state().stream, false, static_cast<const Number*>(op.table.data),
                 op.table.layout.row_bytes / static_cast<std::int64_t>(sizeof(Number)), op.ids.i32(),
                 cuda::rows_of(op.y), hidden);
  });
}

}  // namespace moetune
