#include "kernels/recording_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/device_clock.cuh"
#include "kernels/cuda/launch.cuh"

namespace moetune {
namespace {

constexpr int kChained = 200;
constexpr int kRuns = 15;
constexpr std::array kWorkNs = {0, 500, 1'000, 2'000, 4'000, 8'000};

// As the model's kernels do: the next one may take its place when what was waited for is there.
__global__ void work(std::int64_t cycles) {
  cuda::wait_for_previous();
  cuda::let_next_start();
  const std::int64_t begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

__global__ void stamp(std::int64_t* at) {
  cuda::wait_for_previous();
  *at = cuda::now_ns();
}

// A graph on a stream of its own.
class Chain {
 public:
  Chain(std::int64_t cycles, int blocks) {
    CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_TRY(cudaHostAlloc(&stamps_, 2 * sizeof(std::int64_t), cudaHostAllocMapped));
    CUDA_TRY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cuda::launch(stamp, {.grid = dim3(1), .threads = 1}, stream_, true, stamps_);
    for (int i = 0; i < kChained; ++i)
      cuda::launch(work, {.grid = dim3(static_cast<unsigned>(blocks)), .threads = 128}, stream_, true,
                   cycles);
    cuda::launch(stamp, {.grid = dim3(1), .threads = 1}, stream_, true, stamps_ + 1);
    cudaGraph_t graph = nullptr;
    CUDA_TRY(cudaStreamEndCapture(stream_, &graph));
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    CUDA_TRY(error);
    CUDA_TRY(cudaGraphUpload(executable_, stream_));
    CUDA_TRY(cudaStreamSynchronize(stream_));
  }
  ~Chain() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (stamps_ != nullptr) cudaFreeHost(stamps_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  struct Run {
    double kernel_ns;
    double call_ns;
  };
  Run run() {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    CUDA_TRY(cudaGraphLaunch(executable_, stream_));
    const double call_ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    CUDA_TRY(cudaStreamSynchronize(stream_));
    return {static_cast<double>(stamps_[1] - stamps_[0]) / kChained, call_ns};
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::int64_t* stamps_ = nullptr;  // on the host: when the chain begins and ends
  cudaGraphExec_t executable_ = nullptr;
};

double median(std::array<double, kRuns> values) {
  std::ranges::nth_element(values, values.begin() + kRuns / 2);
  return values[kRuns / 2];
}

}  // namespace

ChainTimes measure_chains() {
  int device = 0;
  int blocks = 0;
  int kilohertz = 0;
  CUDA_TRY(cudaGetDevice(&device));
  CUDA_TRY(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device));
  CUDA_TRY(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device));
  ChainTimes times;
  for (const std::int64_t work_ns : kWorkNs) {
    Chain chain(work_ns * kilohertz / 1'000'000, blocks);
    std::array<double, kRuns> kernels{};
    std::array<double, kRuns> calls{};
    chain.run();  // warms up
    for (std::size_t i = 0; i < kRuns; ++i) {
      const Chain::Run one = chain.run();
      kernels[i] = one.kernel_ns;
      calls[i] = one.call_ns;
    }
    times.kernel_ns.push_back(median(kernels));
    if (work_ns == 0) times.launch_call_ns = median(calls);
  }
  return times;
}

}  // namespace moetune
