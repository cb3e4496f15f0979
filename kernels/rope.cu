#include "kernels/cuda/view.cuh"
#include "kernels/rope.h"

namespace moetune {
namespace {

struct Strides {
  std::int64_t token;
  std::int64_t head;
};

__global__ void rope(float* x, Strides strides, std::int64_t heads, int half, const std::int32_t* positions,
                     const float* frequencies, float scale, bool interleaved) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t token = blockIdx.y;
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= heads * half) return;
  const auto pair = static_cast<int>(index % half);
  float* head = x + token * strides.token + index / half * strides.head;
  float& first = head[interleaved ? 2 * pair : pair];
  float& second = head[interleaved ? 2 * pair + 1 : pair + half];
  // Not __sincosf: at position 100,000 its argument reduction is off by more than bf16 can hide.
  float sine = 0.0F;
  float cosine = 0.0F;
  sincosf(static_cast<float>(positions[token]) * frequencies[pair], &sine, &cosine);
  sine *= scale;
  cosine *= scale;
  const float before = first;
  first = before * cosine - second * sine;
  second = second * cosine + before * sine;
}

}  // namespace

void run(Cuda& cuda, const Rope& op) {
  const auto half = static_cast<int>(op.frequencies.dim(0));
  const std::int64_t tokens = op.x.dim(0);
  const std::int64_t heads = op.x.dim(1);
  if (tokens * heads * half == 0) return;
  cuda::launch(
      rope,
      {.grid = dim3(cuda::blocks_for(heads * half, 128), static_cast<unsigned>(tokens)), .threads = 128},
      cuda.state().stream, true, op.x.f32(), Strides{op.x.stride(0), op.x.stride(1)}, heads, half,
      op.positions.i32(), op.frequencies.f32(), op.scale, op.interleaved);
}

}  // namespace moetune
