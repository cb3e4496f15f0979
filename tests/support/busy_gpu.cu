#include "tests/support/busy_gpu.h"

#include <chrono>
#include <stdexcept>

#include "kernels/cuda/check.cuh"

namespace moetune::testing {
namespace {

constexpr int kThreads = 256;  // small blocks fill the multiprocessors of every kind of card
constexpr std::chrono::seconds kPatience{10};

// Written by the kernel, read by the host. Only stores: atomics on host memory are none where the link does
// not carry them.
struct Signs {
  int all_started;
  int one_ends;
};

__global__ void __launch_bounds__(kThreads) spin(volatile Signs* signs, int* started, unsigned long long ns) {
  const auto now = [] {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  };
  const unsigned long long end = now() + ns;
  if (threadIdx.x == 0 && atomicAdd(started, 1) == static_cast<int>(gridDim.x) - 1) signs->all_started = 1;
  while (now() < end) {
  }
  if (threadIdx.x == 0) signs->one_ends = 1;
}

}  // namespace

struct BusyGpu::State {
  cudaStream_t stream = nullptr;
  Signs* signs = nullptr;  // pinned
  int* started = nullptr;  // on the device
};

BusyGpu::BusyGpu(double milliseconds) : state_(std::make_unique<State>()) {
  int device = 0;
  int multiprocessors = 0;
  int blocks_each = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, spin, kThreads, 0));
  CUDA_TRY(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaHostAlloc(&state_->signs, sizeof(Signs), cudaHostAllocMapped));
  *state_->signs = {};
  CUDA_TRY(cudaMalloc(&state_->started, sizeof(int)));
  CUDA_TRY(cudaMemsetAsync(state_->started, 0, sizeof(int), state_->stream));
  const int blocks = multiprocessors * blocks_each;
  spin<<<blocks, kThreads, 0, state_->stream>>>(state_->signs, state_->started,
                                                static_cast<unsigned long long>(1e6 * milliseconds));
  CUDA_TRY(cudaGetLastError());
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (*static_cast<volatile int*>(&state_->signs->all_started) == 0)
    if (std::chrono::steady_clock::now() > give_up)
      throw std::runtime_error("the GPU did not take a kernel that fills it");
}

BusyGpu::~BusyGpu() {
  cudaStreamSynchronize(state_->stream);
  cudaStreamDestroy(state_->stream);
  cudaFreeHost(state_->signs);
  cudaFree(state_->started);
}

bool BusyGpu::is_ending() const { return *static_cast<volatile int*>(&state_->signs->one_ends) != 0; }

}  // namespace moetune::testing
