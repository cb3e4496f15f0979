#include "kernels/fetch_experts.h"

#include <cassert>
#include <chrono>
#include <cstring>

namespace moetune {

void run(Cpu& cpu, const FetchExperts& op) {
  using Clock = std::chrono::steady_clock;
  assert(op.block_bytes % 16 == 0);
  const std::int32_t count = op.list.count.i32()[0];
  if (count == 0) return;
  const Clock::time_point start = Clock::now();
  cpu.pool().parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(op.slots + op.list.slots.i32()[i] * op.block_bytes,
                  op.store + op.list.sources.i32()[i] * op.block_bytes,
                  static_cast<std::size_t>(op.block_bytes));
  });
  if (op.counters == nullptr) return;
  op.counters->fetch_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

}  // namespace moetune
