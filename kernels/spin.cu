#include "kernels/spin.h"

#include "kernels/cuda/device_clock.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/state.cuh"

namespace moetune {
namespace {

__global__ void spin(std::int64_t ns) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t end = cuda::now_ns() + ns;
  while (cuda::now_ns() < end) {
  }
}

// As the chains that tell what recording adds (recording_probe.cu): only one waits in its place for the one
// in front. A hundred that are in their places follow each other in 0.2 us, which is no launch.
__global__ void nothing() {
  cuda::wait_for_previous();
  cuda::let_next_start();
}

}  // namespace

void run(Cuda& cuda, const Spin& op) {
  if (op.ns <= 0) {
    const auto blocks = static_cast<unsigned>(cuda.state().multiprocessors);
    return cuda::launch(nothing, {.grid = dim3(blocks), .threads = 128}, cuda.state().stream, true);
  }
  cuda::launch(spin, {.grid = dim3(1), .threads = 1}, cuda.state().stream, true, op.ns);
}

}  // namespace moetune
