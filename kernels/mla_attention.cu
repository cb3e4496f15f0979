#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/mla_attention.h"

namespace moetune {
namespace {

struct Heads {
  float* data;
  std::int64_t token_stride;
  std::int64_t head_stride;
};
Heads heads_of(const Tensor& tensor) { return {tensor.f32(), tensor.stride(0), tensor.stride(1)}; }

// One warp an output element; the small matrices of all heads together are read once per token.
__global__ void per_head_gemm(Heads x, const float* w, Heads y, int out, int in) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const int row = static_cast<int>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= out) return;
  const std::int64_t head = blockIdx.y;
  const std::int64_t token = blockIdx.z;
  const float* weights = w + (head * out + row) * in;
  const float* from = x.data + token * x.token_stride + head * x.head_stride;
  float sum = 0.0F;
  for (int column = lane; column < in; column += 32) sum += weights[column] * from[column];
  sum = cuda::warp_sum(sum);
  if (lane == 0) y.data[token * y.token_stride + head * y.head_stride + row] = sum;
}

}  // namespace

void run(Cuda& cuda, const PerHeadGemm& op) {
  const auto out = static_cast<int>(op.w.dim(1));
  if (op.x.dim(0) == 0) return;
  cuda::launch(per_head_gemm,
               {.grid = dim3(cuda::blocks_for(out, 8), static_cast<unsigned>(op.w.dim(0)),
                             static_cast<unsigned>(op.x.dim(0))),
                .threads = 256},
               cuda.state().stream, true, heads_of(op.x), static_cast<const float*>(op.w.f32()),
               heads_of(op.y), out, static_cast<int>(op.w.dim(2)));
}

void run(Cuda& cuda, const MlaAttention& op) {
  const auto rank = static_cast<int>(op.q_latent.dim(2));
  const cuda::AttendShape shape{.tokens = static_cast<int>(op.q_latent.dim(0)),
                                .heads = static_cast<int>(op.q_latent.dim(1)),
                                .kv_heads = 1,
                                .key_width = static_cast<int>(op.cache.dim(2)),
                                .value_width = rank,
                                .window = 0,
                                .capacity = static_cast<int>(op.cache.dim(1)),
                                .scale = op.scale};
  const cuda::AttendInputs inputs{.q = op.q_latent.f32(),
                                  .q_strides = {op.q_latent.stride(0), op.q_latent.stride(1)},
                                  .q_width = rank,
                                  .q_rest = op.q_rope.f32(),
                                  .q_rest_strides = {op.q_rope.stride(0), op.q_rope.stride(1)},
                                  .keys = op.cache.data(),
                                  .values = op.cache.data(),
                                  .slot_stride = op.cache.stride(0),
                                  .row_stride = op.cache.stride(1),
                                  .head_stride = 0,
                                  .sequences = op.sequences.i32(),
                                  .positions = op.positions.i32(),
                                  .y = op.y.f32(),
                                  .y_strides = {op.y.stride(0), op.y.stride(1)}};
  if (cuda::attends_latent_as_prompt(cuda, op.cache.type(), shape, inputs, op.runs))
    return cuda::attend_latent_prompt(cuda, shape, inputs);
  cuda::attend(cuda, op.cache.type(), shape, inputs);
}

}  // namespace moetune
