// Was the machine held back while something was measured? Such a time says what a hot or rationed machine does, not what the
// configuration does. Start at ThrottleWatch; where the signs come from: cpu_throttle_counter().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace moetune {

// A count that grows whenever the machine was held back; empty: it cannot be read, which is no sign.
using ThrottleCounter = std::function<std::optional<std::int64_t>()>;

// How often the kernel held this process's group back because its CPU quota was used up (cgroup v2, cpu.stat: nr_throttled),
// plus how often cores or packages were slowed down because of heat (thermal_throttle). root: where /proc and /sys are; tests
// give a folder of their own.
ThrottleCounter cpu_throttle_counter(const std::string& root = "");

class ThrottleWatch {
 public:
  explicit ThrottleWatch(ThrottleCounter counter);
  // Has the count grown since the last call, or since the beginning?
  bool was_throttled();

 private:
  ThrottleCounter counter_;
  std::optional<std::int64_t> last_;
};

}  // namespace moetune
