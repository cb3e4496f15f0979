// How much work one piece of a parallel_for should hold at least, so that handing it to another thread pays.
#pragma once

#include <algorithm>
#include <cstdint>

namespace moetune {

// Multiply-adds, or steps of similar cost, per piece. A core does 15 to 25 a nanosecond, so a piece takes 3
// us or more; handing work out costs 0.2 us with oneTBB, whether or not another thread comes to help.
inline constexpr std::int64_t kLeastWorkPerPiece = 64 * 1024;

// Indices per piece when one index costs work_per_index.
inline std::int64_t grain_for(std::int64_t work_per_index) {
  return std::max<std::int64_t>(1, kLeastWorkPerPiece / std::max<std::int64_t>(1, work_per_index));
}

}  // namespace moetune
