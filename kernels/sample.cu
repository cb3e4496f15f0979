// One block a row. The draw itself is sample.cpp's: Gumbel noise from the same Philox numbers, largest score
// wins, ties to the lower id.
#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/view.cuh"
#include "kernels/sample.h"

namespace moetune {
namespace {

constexpr int kThreads = 512;

struct Best {
  float score;
  int id;
  __device__ void take(float other_score, int other_id) {
    if (other_score > score || (other_score == score && other_id < id)) score = other_score, id = other_id;
  }
};

__global__ void __launch_bounds__(kThreads)
    sample(cuda::Rows logits, int vocabulary, const std::int32_t* keys, std::int32_t* ids, float temperature,
           std::uint64_t seed) {
  __shared__ Best found[kThreads / 32];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const float* from = logits.row(blockIdx.x);
  Best best{-INFINITY, 0x7FFFFFFF};
  for (int block = static_cast<int>(threadIdx.x) * 4; block < vocabulary; block += kThreads * 4) {
    cuda::Random4 random{};
    if (temperature > 0.0F)
      random = cuda::philox(static_cast<std::uint32_t>(block / 4), static_cast<std::uint32_t>(keys[blockIdx.x]), 0,
                            0, seed);
    for (int i = 0; i < 4 && block + i < vocabulary; ++i) {
      float score = from[block + i];
      if (temperature > 0.0F) {
        const double u = (static_cast<double>(random.value[i] >> 8) + 0.5) * 0x1p-24;
        score = score / temperature + static_cast<float>(-log(-log(u)));
      }
      best.take(score, block + i);
    }
  }
  for (int offset = 16; offset > 0; offset /= 2)
    best.take(__shfl_xor_sync(0xFFFFFFFFU, best.score, offset),
              __shfl_xor_sync(0xFFFFFFFFU, best.id, offset));
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const Best& other : found) best.take(other.score, other.id);
  ids[blockIdx.x] = best.id;
}

}  // namespace

void run(Cuda& cuda, const Sample& op) {
  if (op.logits.dim(0) == 0) return;
  cuda::launch(sample, {.grid = dim3(static_cast<unsigned>(op.logits.dim(0))), .threads = kThreads},
               cuda.state().stream, true, cuda::rows_of(op.logits), static_cast<int>(op.logits.dim(1)),
               op.temperature > 0.0F ? op.keys.i32() : nullptr, op.ids.i32(), op.temperature, op.seed);
}

}  // namespace moetune
