#include "engine/sync_tax/device_cost.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace moetune {

std::int64_t DeviceRecordingCost::added_to(std::int64_t length_ns) const {
  if (kernels.empty()) return 0;
  const auto length = static_cast<double>(length_ns);
  const auto above = std::ranges::lower_bound(kernels, length, {}, &Point::length_ns);
  double added_ns = 0.0;
  if (above == kernels.begin()) {
    added_ns = above->added_ns;
  } else if (above == kernels.end()) {
    added_ns = kernels.back().added_ns;
  } else {
    const Point& below = *(above - 1);
    const double share = (length - below.length_ns) / (above->length_ns - below.length_ns);
    added_ns = below.added_ns + share * (above->added_ns - below.added_ns);
  }
  return std::llround(std::min(added_ns, length / 2.0));
}

DeviceRecordingCost device_recording_cost(const ChainTimes& plain, const ChainTimes& recorded) {
  if (plain.kernel_ns.size() != recorded.kernel_ns.size())
    throw std::logic_error("chains with and without recording are not the same ones");
  DeviceRecordingCost cost{.kernels = {}, .launch_call_ns = plain.launch_call_ns};
  for (std::size_t chain = 0; chain < plain.kernel_ns.size(); ++chain)
    cost.kernels.push_back(
        {recorded.kernel_ns[chain], std::max(0.0, recorded.kernel_ns[chain] - plain.kernel_ns[chain])});
  std::ranges::sort(cost.kernels, {}, &DeviceRecordingCost::Point::length_ns);
  return cost;
}

}  // namespace moetune
