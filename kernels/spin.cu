#include "kernels/spin.h"

#include "kernels/cuda/device_clock.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/state.cuh"

namespace moetune {
namespace {

__global__ void spin(std::int64_t ns) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  if (ns <= 0) return;
  const std::int64_t end = cuda::now_ns() + ns;
  while (cuda::now_ns() < end) {
  }
}

}  // namespace

void run(Cuda& cuda, const Spin& op) {
  cuda::launch(spin, {.grid = dim3(1), .threads = 1}, cuda.state().stream, true, op.ns);
}

}  // namespace moetune
