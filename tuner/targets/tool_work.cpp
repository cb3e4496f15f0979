#include "tuner/targets/tool_work.h"

#include <algorithm>
#include <chrono>

#include <unistd.h>

namespace moetune {
namespace {

constexpr std::size_t line_bytes = 64;
// A guest is often not told how large its host's cache is; beyond the upper limit a run would take longer
// than a gap.
constexpr std::size_t least_bytes = std::size_t{16} << 20;
constexpr std::size_t most_bytes = std::size_t{256} << 20;

std::size_t bytes_beyond_the_caches() {
  const long last_level = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::clamp(2 * static_cast<std::size_t>(std::max(0L, last_level)), least_bytes, most_bytes);
}

}  // namespace

void ToolWork::run(double gap_seconds) {
  using Clock = std::chrono::steady_clock;
  if (gap_seconds <= 0.0) return;
  if (!cpu_) {
    cpu_ = std::make_unique<Cpu>();
    memory_.resize(bytes_beyond_the_caches());
  }
  ++runs_;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::min(gap_seconds, played_seconds)));
  const auto lines = static_cast<std::int64_t>(memory_.size() / line_bytes);
  do {
    cpu_->pool().parallel_for(lines, lines / cpu_->threads(), [&](std::int64_t begin, std::int64_t stop) {
      for (std::int64_t line = begin; line < stop; ++line)
        ++memory_[static_cast<std::size_t>(line) * line_bytes];
    });
  } while (Clock::now() < end);
}

}  // namespace moetune
