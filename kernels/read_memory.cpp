#include "kernels/read_memory.h"

#include <atomic>

namespace moetune {

void run(Cpu& cpu, const ReadMemory& op) {
  constexpr std::int64_t kGrain = 1 << 16;  // words
  const auto* words = static_cast<const std::uint32_t*>(op.data);
  std::atomic<std::uint32_t> total{0};
  cpu.pool().parallel_for(op.bytes / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += words[i];
    total += sum;
  });
  std::int32_t& sum = op.sum.i32()[0];
  sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum) + total.load());
}

}  // namespace moetune
