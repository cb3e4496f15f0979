#include "tests/support/busy_gpu.h"

#include <chrono>
#include <stdexcept>

#include "kernels/cuda/check.cuh"

namespace moetune::testing {
namespace {

constexpr int kThreads = 256;  // small blocks fill the multiprocessors of every kind of card
constexpr std::chrono::seconds kPatience{10};

struct Counts {
  int started;
  int ended;
};

__global__ void __launch_bounds__(kThreads) spin(Counts* counts, unsigned long long ns) {
  const auto now = [] {
    unsigned long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  };
  const unsigned long long end = now() + ns;
  if (threadIdx.x == 0) atomicAdd_system(&counts->started, 1);
  while (now() < end) {
  }
  if (threadIdx.x == 0) atomicAdd_system(&counts->ended, 1);
}

}  // namespace

struct BusyGpu::State {
  cudaStream_t stream = nullptr;
  Counts* counts = nullptr;
};

BusyGpu::BusyGpu(double milliseconds) : state_(std::make_unique<State>()) {
  int device = 0;
  int multiprocessors = 0;
  int blocks_each = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_each, spin, kThreads, 0));
  CUDA_TRY(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking));
  CUDA_TRY(cudaHostAlloc(&state_->counts, sizeof(Counts), cudaHostAllocMapped));
  *state_->counts = {};
  const int blocks = multiprocessors * blocks_each;
  spin<<<blocks, kThreads, 0, state_->stream>>>(state_->counts, static_cast<unsigned long long>(1e6 * milliseconds));
  CUDA_TRY(cudaGetLastError());
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (*static_cast<volatile int*>(&state_->counts->started) < blocks)
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("the GPU did not take a kernel that fills it");
}

BusyGpu::~BusyGpu() {
  cudaStreamSynchronize(state_->stream);
  cudaStreamDestroy(state_->stream);
  cudaFreeHost(state_->counts);
}

bool BusyGpu::is_ending() const { return *static_cast<volatile int*>(&state_->counts->ended) > 0; }

}  // namespace moetune::testing
