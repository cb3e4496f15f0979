// How long kernels of known lengths take in a graph, one behind the other, as those of a model are launched:
// measured without recording and while something records, they tell what recording adds. Start at
// measure_chains().
#pragma once

#include <vector>

namespace moetune {

struct ChainTimes {
  // Per kernel, from the end of the one in front to its own end, by the device's clock; one per length, from
  // kernels that do nothing to such of 8 us. Medians.
  std::vector<double> kernel_ns;
  double launch_call_ns = 0.0;  // of the call that launches such a graph while the device has nothing to do
};

// On the current device; takes about 50 ms. Throws std::runtime_error without a GPU.
ChainTimes measure_chains();

}  // namespace moetune
