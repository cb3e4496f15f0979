#include "kernels/attention.h"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend_prompt.cuh"

namespace moetune {
namespace {

template <class Number>
__global__ void store_kv(cuda::Rows rows, const std::int32_t* sequences, const std::int32_t* positions,
                         Number* cache, std::int64_t slot_stride, std::int64_t row_stride,
                         std::int64_t width) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t token = blockIdx.y;
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column < width)
    cache[sequences[token] * slot_stride + positions[token] * row_stride + column] =
        cuda::narrow<Number>(rows.row(token)[column]);
}

}  // namespace

void run(Cuda& cuda, const StoreKv& op) {
  const std::int64_t width = op.rows.dim(1);
  if (op.rows.dim(0) * width == 0) return;
  cuda::with_float_type(op.cache.type(), "a KV cache", [&](auto number) {
    using Number = decltype(number);
    cuda::launch(
        store_kv<Number>,
        {.grid = dim3(cuda::blocks_for(width, 256), static_cast<unsigned>(op.rows.dim(0))), .threads = 256},
        cuda.state().stream, true, cuda::rows_of(op.rows), op.sequences.i32(), op.positions.i32(),
        static_cast<Number*>(op.cache.data()), op.cache.stride(0), op.cache.stride(1), width);
  });
}

void run(Cuda& cuda, const Attention& op) {
  const auto head_dim = static_cast<int>(op.q.dim(2));
  const cuda::AttendShape shape{.tokens = static_cast<int>(op.q.dim(0)),
                                .heads = static_cast<int>(op.q.dim(1)),
                                .kv_heads = op.kv_heads,
                                .key_width = head_dim,
                                .value_width = head_dim,
                                .window = op.window,
                                .capacity = static_cast<int>(op.k_cache.dim(1)),
                                .scale = op.scale};
  const cuda::AttendInputs inputs{.q = op.q.f32(),
                                  .q_strides = {op.q.stride(0), op.q.stride(1)},
                                  .q_width = head_dim,
                                  .q_rest = nullptr,
                                  .q_rest_strides = {},
                                  .keys = op.k_cache.data(),
                                  .values = op.v_cache.data(),
                                  .slot_stride = op.k_cache.stride(0),
                                  .row_stride = op.k_cache.stride(1),
                                  .head_stride = head_dim,
                                  .sequences = op.sequences.i32(),
                                  .positions = op.positions.i32(),
                                  .y = op.y.f32(),
                                  .y_strides = {op.y.stride(0), op.y.stride(1)}};
  if (cuda::attends_as_prompt(op.k_cache.type(), shape, inputs, op.runs)) return cuda::attend_prompt(cuda, shape, inputs);
  cuda::attend(cuda, op.k_cache.type(), shape, inputs);
}

}  // namespace moetune
