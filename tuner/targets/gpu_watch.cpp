#include "tuner/targets/gpu_watch.h"

#include <algorithm>
#include <utility>

namespace moetune {
namespace {

void add(std::optional<double>& sum, int& looks, double value) {
  sum = sum.value_or(0.0) + value;
  ++looks;
}

}  // namespace

GpuWatch::GpuWatch(Look look)
    : thread_([this, how = std::move(look)](const std::stop_token& stop) { watch(stop, how); }) {}

void GpuWatch::watch(const std::stop_token& stop, const Look& look) {
  do {
    const GpusSeen seen = look();
    ++sum_.looks;
    if (seen.gpus.empty()) return;  // it does not come later either
    const GpuHealth& gpu = seen.gpus.front();
    if (gpu.busy_percent) add(sum_.busy_percent, busy_looks_, *gpu.busy_percent);
    if (gpu.link_gb_per_s) add(sum_.link_gb_per_s, link_looks_, *gpu.link_gb_per_s);
    for (const std::string& reason : gpu.throttle_reasons)
      if (std::ranges::find(sum_.held_down_by, reason) == sum_.held_down_by.end())
        sum_.held_down_by.push_back(reason);
  } while (!stop.stop_requested());
}

GpuUse GpuWatch::finish() {
  thread_.request_stop();
  thread_.join();
  if (sum_.busy_percent) *sum_.busy_percent /= busy_looks_;
  if (sum_.link_gb_per_s) *sum_.link_gb_per_s /= link_looks_;
  return sum_;
}

}  // namespace moetune
