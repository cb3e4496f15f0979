#include "kernels/next_tokens.h"

#include <chrono>

namespace moetune {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void run(Cpu&, const StartClock& op) { op.log_ns[0] = now_ns(); }

void run(Cpu&, const NextTokens& op) {
  const std::int64_t rows = op.ids.dim(0);
  const std::int64_t step = op.state.i32()[0]++;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t sampled = op.sampled.i32()[row];
    op.log_ids.i32()[step * rows + row] = sampled;
    op.ids.i32()[row] = op.state.i32()[1] != 0 ? op.forced.i32()[step * rows + row] : sampled;
    ++op.positions.i32()[row];
    ++op.keys.i32()[row];
  }
  op.log_ns[step + 1] = now_ns();
}

}  // namespace moetune
