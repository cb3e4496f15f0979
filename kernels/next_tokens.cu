#include "kernels/cuda/device_clock.cuh"
#include "kernels/cuda/view.cuh"
#include "kernels/next_tokens.h"

namespace moetune {
namespace {

__global__ void start_clock(std::int64_t* log_ns) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  log_ns[0] = cuda::now_ns();
}

struct Lists {
  std::int32_t* state;
  const std::int32_t* sampled;
  const std::int32_t* forced;
  std::int32_t* ids;
  std::int32_t* positions;
  std::int32_t* keys;
  std::int32_t* log_ids;
  std::int64_t* log_ns;
  int rows;
};

__global__ void next_tokens(Lists lists) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const int step = lists.state[0];
  const bool is_forced = lists.state[1] != 0;
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x); row < lists.rows; row += static_cast<int>(blockDim.x)) {
    const std::int64_t at = std::int64_t{step} * lists.rows + row;
    const std::int32_t sampled = lists.sampled[row];
    lists.log_ids[at] = sampled;
    lists.ids[row] = is_forced ? lists.forced[at] : sampled;
    ++lists.positions[row];
    ++lists.keys[row];
  }
  if (threadIdx.x != 0) return;
  lists.state[0] = step + 1;
  lists.log_ns[step + 1] = cuda::now_ns();
}

}  // namespace

void run(Cuda& cuda, const StartClock& op) {
  cuda::launch(start_clock, {.grid = dim3(1), .threads = 1}, cuda.state().stream, true, op.log_ns);
}

void run(Cuda& cuda, const NextTokens& op) {
  cuda::launch(next_tokens, {.grid = dim3(1), .threads = 128}, cuda.state().stream, true,
               Lists{.state = op.state.i32(),
                     .sampled = op.sampled.i32(),
                     .forced = op.forced.i32(),
                     .ids = op.ids.i32(),
                     .positions = op.positions.i32(),
                     .keys = op.keys.i32(),
                     .log_ids = op.log_ids.i32(),
                     .log_ns = op.log_ns,
                     .rows = static_cast<int>(op.ids.dim(0))});
}

}  // namespace moetune
