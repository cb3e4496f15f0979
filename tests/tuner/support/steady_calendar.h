// A calendar that nobody sets: what a test says of messages must not depend on the time service of its
// machine.
#pragma once

#include <chrono>

namespace moetune {

inline std::chrono::system_clock::time_point steady_calendar() {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::steady_clock::now().time_since_epoch()));
}

}  // namespace moetune
