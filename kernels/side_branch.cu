// Two streams, each with an event that the other one waits for.
#include "kernels/cuda/check.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda_side_branch.h"

namespace moetune {
namespace {

// Waits for all that its stream waits for. A kernel launched as overlapping (cuda/launch.cuh) looks back at
// the kernel in front of it only, and that one it finds here.
__global__ void gather() {}

class Event {
 public:
  Event() { CUDA_TRY(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void order(cudaStream_t first, cudaStream_t then) {
    CUDA_TRY(cudaEventRecord(event_, first));
    CUDA_TRY(cudaStreamWaitEvent(then, event_));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class StreamTies : public SideBranch::Ties {
 public:
  StreamTies(const Cuda& device, const Cuda& branch) : device_(device), branch_(branch) {}
  void fork() override { forked_.order(device_.state().stream, branch_.state().stream); }
  void join() override {
    joined_.order(branch_.state().stream, device_.state().stream);
    gather<<<1, 32, 0, device_.state().stream>>>();
    CUDA_TRY(cudaGetLastError());
  }

 private:
  Cuda device_;
  Cuda branch_;
  Event forked_;
  Event joined_;
};

}  // namespace

Cuda cuda_on_the_same_gpu(Cuda& cuda) { return Cuda(cuda.state().ordinal); }

std::unique_ptr<SideBranch::Ties> tie_streams(const Cuda& device, const Cuda& branch) {
  return std::make_unique<StreamTies>(device, branch);
}

}  // namespace moetune
