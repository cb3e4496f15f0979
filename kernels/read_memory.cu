#include <algorithm>

#include "kernels/cuda/view.cuh"
#include "kernels/read_memory.h"

namespace moetune {
namespace {

constexpr int kThreads = 512;
constexpr int kInFlight = 8;  // loads of a thread that wait at the same time

__global__ void __launch_bounds__(kThreads)
    read_memory(const uint4* block, std::int64_t count, unsigned* total) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  unsigned sum = 0;
  std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; index + (kInFlight - 1) * stride < count; index += kInFlight * stride) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) words[i] = __ldcs(block + index + i * stride);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) sum += words[i].x + words[i].y + words[i].z + words[i].w;
  }
  for (; index < count; index += stride) {
    const uint4 words = block[index];
    sum += words.x + words.y + words.z + words.w;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(total, sum);
}

}  // namespace

void run(Cuda& cuda, const ReadMemory& op) {
  const std::int64_t count = op.bytes / 16;
  // All blocks run at once, so that none is left for a second round.
  static const int resident = [] {
    int blocks = 0;
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, read_memory, kThreads, 0));
    return blocks;
  }();
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>(cuda.state().multiprocessors * resident, cuda::blocks_for(count, kThreads)));
  if (blocks == 0) return;
  cuda::launch(read_memory, {.grid = dim3(blocks), .threads = kThreads}, cuda.state().stream, true,
               static_cast<const uint4*>(op.data), count, reinterpret_cast<unsigned*>(op.sum.i32()));
}

}  // namespace moetune
