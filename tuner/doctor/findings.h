// What is wrong with a box, what follows from it and what helps. Pure functions of BoxFacts. Start at
// findings_of(); complaints.h answers what people come with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/doctor/box_facts.h"

namespace moetune {

enum class Severity : std::uint8_t {
  remark,   // worth knowing
  warning,  // costs speed, or may
  spoils,   // nothing measured now can be trusted
};
std::string name_of(Severity severity);  // "remark", "warning", "spoils measurements"

struct Finding {
  std::string id;  // stable, for scripts: "gpu_throttled"
  Severity severity = Severity::remark;
  std::string what;
  std::string consequence;
  std::string remedy;
};

// The gravest first, otherwise in a fixed order.
std::vector<Finding> findings_of(const BoxFacts& box);

// What a running GPU waits for. The rules: kernels run less than 70 % of the time, and the link is above 85 %
// of its measured rate: copies; both low, the link below half of its rate: launches or synchronisation;
// between the two: each in its turn.
enum class Bottleneck : std::uint8_t { unknown, none, copies, copies_in_turns, launches_or_synchronisation };
Bottleneck bottleneck_of(const BoxFacts& box, const GpuState& gpu);

inline constexpr int kBusyPercent = 70;
inline constexpr double kBusyLinkShare = 0.85;
inline constexpr double kQuietLinkShare = 0.5;
// Above it pages of running processes are on their way, at the speed of a disk.
inline constexpr double kSwappingMbPerS = 25.0;
inline constexpr int kForeignBusyPercent = 10;

}  // namespace moetune
