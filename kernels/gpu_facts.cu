// Start at measure_gpu(). Rates are the best of a few passes: what the card can do, not what it did in a bad
// moment.
#include "kernels/gpu_facts.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda_memory.h"
#include "kernels/read_memory.h"

namespace moetune {
namespace {

constexpr int kPasses = 5;
constexpr std::int64_t kReadBytes = std::int64_t{2} << 30;    // forty times the largest L2
constexpr std::int64_t kLinkBytes = std::int64_t{128} << 20;  // pinning more takes longer than copying it
constexpr std::int64_t kPageableBytes = std::int64_t{64} << 20;
constexpr int kFill = 1;  // every byte of the block

class Stopwatch {
 public:
  Stopwatch() {
    CUDA_TRY(cudaEventCreate(&start_));
    CUDA_TRY(cudaEventCreate(&end_));
  }
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Work>
  double seconds(cudaStream_t stream, const Work& work) {
    CUDA_TRY(cudaEventRecord(start_, stream));
    work();
    CUDA_TRY(cudaEventRecord(end_, stream));
    CUDA_TRY(cudaEventSynchronize(end_));
    float milliseconds = 0.0F;
    CUDA_TRY(cudaEventElapsedTime(&milliseconds, start_, end_));
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

template <class Work>
double best_gb_per_s(cudaStream_t stream, std::int64_t bytes, const Work& work) {
  Stopwatch watch;
  double best = std::numeric_limits<double>::max();
  for (int pass = 0; pass < kPasses; ++pass) best = std::min(best, watch.seconds(stream, work));
  return static_cast<double>(bytes) / best / 1e9;
}

double measured_read_rate(Cuda& cuda, std::int64_t free_bytes) {
  const std::int64_t bytes = std::min(kReadBytes, free_bytes / 4) / 256 * 256;
  const cudaStream_t stream = cuda.state().stream;
  const std::shared_ptr<std::byte> block = cuda_allocate(cuda, bytes);
  const std::shared_ptr<std::byte> sum = cuda_allocate(cuda, sizeof(unsigned));
  CUDA_TRY(cudaMemsetAsync(block.get(), kFill, static_cast<std::size_t>(bytes), stream));
  CUDA_TRY(cudaMemsetAsync(sum.get(), 0, sizeof(unsigned), stream));
  const double rate = best_gb_per_s(stream, bytes, [&] {
    run(cuda,
        ReadMemory{.data = block.get(), .bytes = bytes, .sum = Tensor(sum.get(), NumberType::i32, {1})});
  });
  unsigned found = 0;
  cuda_copy_to_host(cuda, sum.get(), &found, sizeof(found));
  const unsigned expected =
      static_cast<unsigned>(bytes / 4) * 0x01010101U * kPasses;  // modulo 2^32, as added
  if (found != expected)
    throw std::runtime_error(
        "the GPU read other values from its memory than were written there: it is defective");
  return rate;
}

double measured_link_rate(Cuda& cuda, std::int64_t free_bytes) {
  const std::int64_t bytes = std::min(kLinkBytes, free_bytes / 4);
  const cudaStream_t stream = cuda.state().stream;
  void* pinned = nullptr;
  CUDA_TRY(cudaMallocHost(&pinned, static_cast<std::size_t>(bytes)));
  const std::unique_ptr<void, cudaError_t (*)(void*)> owner(pinned, cudaFreeHost);
  const std::shared_ptr<std::byte> block = cuda_allocate(cuda, bytes);
  return best_gb_per_s(stream, bytes, [&] {
    CUDA_TRY(cudaMemcpyAsync(block.get(), pinned, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                             stream));
  });
}

double measured_pageable_rate(Cuda& cuda, std::int64_t free_bytes) {
  const std::int64_t bytes = std::min(kPageableBytes, free_bytes / 4);
  const cudaStream_t stream = cuda.state().stream;
  const std::vector<std::byte> pageable(static_cast<std::size_t>(bytes), std::byte{kFill});
  const std::shared_ptr<std::byte> block = cuda_allocate(cuda, bytes);
  return best_gb_per_s(stream, bytes, [&] {
    CUDA_TRY(cudaMemcpyAsync(block.get(), pageable.data(), pageable.size(), cudaMemcpyHostToDevice, stream));
  });
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int gpus_or_reason() {
  int driver = 0;
  // A missing driver is told by version 0; cudaGetDeviceCount would call it "insufficient".
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    throw std::runtime_error("no NVIDIA driver is loaded (libcuda.so.1 cannot be opened)");
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    throw std::runtime_error(std::string("no GPU can be used: ") + cudaGetErrorName(error) + ", " +
                             cudaGetErrorString(error));
  if (count == 0)
    throw std::runtime_error("no GPU can be used: CUDA finds none (CUDA_VISIBLE_DEVICES may hide them)");
  return count;
}

}  // namespace

std::string gpu_bus_id(int ordinal) {
  gpus_or_reason();
  std::array<char, 32> text{};
  CUDA_TRY(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal));
  return text.data();
}

GpuFacts measure_gpu(int ordinal) {
  GpuFacts facts;
  facts.count = gpus_or_reason();
  Cuda cuda(ordinal);
  cudaDeviceProp properties{};
  CUDA_TRY(cudaGetDeviceProperties(&properties, ordinal));
  facts.name = properties.name;
  facts.compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor);
  facts.multiprocessors = properties.multiProcessorCount;
  int version = 0;
  CUDA_TRY(cudaDriverGetVersion(&version));
  facts.driver = version_text(version);
  CUDA_TRY(cudaRuntimeGetVersion(&version));
  facts.runtime = version_text(version);
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  CUDA_TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  facts.memory_bytes = static_cast<std::int64_t>(all_bytes);
  facts.free_bytes = static_cast<std::int64_t>(free_bytes);
  facts.read_gb_per_s = measured_read_rate(cuda, facts.free_bytes);
  facts.link_gb_per_s = measured_link_rate(cuda, facts.free_bytes);
  facts.pageable_gb_per_s = measured_pageable_rate(cuda, facts.free_bytes);
  return facts;
}

}  // namespace moetune
