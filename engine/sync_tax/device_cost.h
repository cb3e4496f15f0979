// What recording adds to what a GPU does. Kernels take longer, those that do nothing by more than all others:
// chains of kernels of known lengths tell it, with and without recording. Calls that launch a graph take
// longer on the host. Start at device_recording_cost().
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/recording_probe.h"

namespace moetune {

struct DeviceRecordingCost {
  struct Point {
    double length_ns = 0.0;  // of a recorded kernel, from the end of the one in front of it to its own
    double added_ns = 0.0;   // of it, by recording
  };
  std::vector<Point> kernels;   // by length; empty: nothing is known, and nothing is taken out
  double launch_call_ns = 0.0;  // a call that launches a graph, without recording; 0: not known

  // Between two points in proportion, beyond them as at the nearest; never more than half of the length.
  std::int64_t added_to(std::int64_t length_ns) const;
};

// Both of the same chains. Two points: the shortest chain's, and one for all others, from the length of the
// second shortest on. On an H200 these cost alike, 32 to 42 ns from 0.9 to 4.4 us, and one by one the long
// ones only add noise: 0.1 % of 8 us is 8 ns. What recording makes shorter costs nothing.
DeviceRecordingCost device_recording_cost(const ChainTimes& plain, const ChainTimes& recorded);

}  // namespace moetune
