#include "engine/sync_tax/device_cost.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

namespace moetune {
namespace {

// A length is known to a share of itself (clocks move), so a chain's weight falls with its square.
DeviceRecordingCost::Point longer_kernels(std::span<const DeviceRecordingCost::Point> chains) {
  double weights = 0.0;
  double weighted_ns = 0.0;
  for (const DeviceRecordingCost::Point& chain : chains) {
    const double weight = 1.0 / (chain.length_ns * chain.length_ns);
    weights += weight;
    weighted_ns += weight * chain.added_ns;
  }
  return {chains[0].length_ns, std::max(0.0, weighted_ns / weights)};
}

}  // namespace

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
  std::vector<DeviceRecordingCost::Point> chains;
  for (std::size_t chain = 0; chain < plain.kernel_ns.size(); ++chain)
    chains.push_back({recorded.kernel_ns[chain], recorded.kernel_ns[chain] - plain.kernel_ns[chain]});
  std::ranges::sort(chains, {}, &DeviceRecordingCost::Point::length_ns);
  DeviceRecordingCost cost{.kernels = {}, .launch_call_ns = plain.launch_call_ns};
  if (!chains.empty()) cost.kernels.push_back({chains[0].length_ns, std::max(0.0, chains[0].added_ns)});
  if (chains.size() > 1) cost.kernels.push_back(longer_kernels(std::span(chains).subspan(1)));
  return cost;
}

}  // namespace moetune
