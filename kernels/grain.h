// How much work one piece of a parallel_for should hold at least, so that handing it to another thread pays.
#pragma once

#include <algorithm>
#include <cstdint>

namespace moetune {

// Multiply-adds, or steps of similar cost, per piece. A core does 15 to 25 a nanosecond, so a piece takes 10
// us or more. Handing work out costs 0.2 us with oneTBB, but a thread that has gone to sleep since the last
// op takes longer to come than small pieces take to do: with pieces of 64 Ki two cores decoded the embedded
// model slower than one (0.30 to 0.35 against 0.27 to 0.29 ms a token), and the times said how soon the other
// thread woke.
inline constexpr std::int64_t kLeastWorkPerPiece = 256 * 1024;

// Indices per piece when one index costs work_per_index.
inline std::int64_t grain_for(std::int64_t work_per_index) {
  return std::max<std::int64_t>(1, kLeastWorkPerPiece / std::max<std::int64_t>(1, work_per_index));
}

}  // namespace moetune
