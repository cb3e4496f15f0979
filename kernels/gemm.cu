// Tiles go to the tensor cores, rows (router, f32 weights) to one warp per output element in f32.
#include "kernels/cuda/prompt_ops.cuh"
#include "kernels/cuda/rows_gemm.cuh"
#include "kernels/cuda/tile_gemm.cuh"
#include "kernels/gemm.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

using cuda::Rows;

struct Result {
  Rows y;
  const float* bias;
  bool accumulates;

  __device__ void put(std::int64_t token, std::int64_t row, float value) const {
    if (bias != nullptr) value += bias[row];
    float& to = y.row(token)[row];
    to = accumulates ? to + value : value;
  }
};

template <class Number>
__global__ void __launch_bounds__(256) rows_gemm(Rows x, const Number* w, std::int64_t stride,
                                                 std::int64_t out, std::int64_t in, Result result) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t row = std::int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (row >= out) return;
  const std::int64_t lane = threadIdx.x % 32;
  const Number* weights = w + row * stride;
  const float* from = x.row(blockIdx.y);
  float sum = 0.0F;
  for (std::int64_t column = lane; column < in; column += 32)
    sum += cuda::widen(weights[column]) * from[column];
  sum = cuda::warp_sum(sum);
  if (lane == 0) result.put(blockIdx.y, row, sum);
}

void run_rows(Cuda& cuda, const Gemm& op, const Result& result) {
  const MatrixLayout& layout = op.w.layout;
  cuda::with_float_type(layout.type, "a weight matrix in rows", [&](auto number) {
    using Number = decltype(number);
    if (op.x.dim(0) >= cuda::kLeastManyRows)
      return cuda::launch_many_rows<Number>(
          cuda, cuda::rows_of(op.x), static_cast<int>(op.x.dim(0)), static_cast<const Number*>(op.w.data),
          layout.row_bytes / static_cast<std::int64_t>(sizeof(Number)), static_cast<int>(layout.out),
          static_cast<int>(layout.in), result);
    cuda::launch(
        rows_gemm<Number>,
        {.grid = dim3(cuda::blocks_for(layout.out, 8), static_cast<unsigned>(op.x.dim(0))), .threads = 256},
        cuda.state().stream, true, cuda::rows_of(op.x), static_cast<const Number*>(op.w.data),
        layout.row_bytes / static_cast<std::int64_t>(sizeof(Number)), layout.out, layout.in, result);
  });
}

}  // namespace

void run(Cuda& cuda, const Gemm& op) {
  const MatrixLayout& matrix = op.w.layout;
  if (op.x.dim(0) == 0 || matrix.out == 0) return;
  const float* bias = op.bias.empty() ? nullptr : op.bias.f32();
  const auto tokens = static_cast<int>(op.x.dim(0));
  if (matrix.packing == Packing::rows) return run_rows(cuda, op, {cuda::rows_of(op.y), bias, op.accumulate});
  if (cuda::takes_prompt_product(tokens, matrix.out)) {
    const cuda::PromptPart part{matrix, op.w.data, bias, cuda::rows_of(op.y)};
    return cuda::prompt_products(cuda, cuda::rows_of(op.x), tokens, &part, 1, op.accumulate);
  }
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  cuda::tile_gemm(cuda, matrix.type,
                  {.x = cuda::rows_of(op.x),
                   .tokens = tokens,
                   .in = static_cast<int>(layout.in),
                   .chunks = static_cast<int>(layout.chunks),
                   .tiles = static_cast<int>(layout.tiles),
                   .parts = 1,
                   .part = {{static_cast<const unsigned char*>(op.w.data), layout.tile_bytes,
                             static_cast<int>(layout.out), 0, bias, cuda::rows_of(op.y)}},
                   .accumulates = op.accumulate,
                   .norm = nullptr,
                   .eps = 0.0F});
}

}  // namespace moetune
