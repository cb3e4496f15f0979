// What the driver counts while something runs: how busy the GPU is and what comes over its link. Start at
// GpuWatch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gpu_health.h"

namespace moetune {

// Means over the looks that had an answer.
struct GpuUse {
  int looks = 0;
  std::optional<double> busy_percent;   // of the time, some kernel ran
  std::optional<double> link_gb_per_s;  // received from the host
  // Why its clock was held down, as the driver names it, each once; power_cap is usual under load.
  std::vector<std::string> held_down_by;
};

class GpuWatch {
 public:
  using Look = std::function<GpusSeen()>;

  // Looks at the first GPU again and again, on a thread of its own, and at least once.
  explicit GpuWatch(Look look = [] { return look_at_gpus(); });
  GpuUse finish();  // once

 private:
  void watch(const std::stop_token& stop, const Look& look);

  GpuUse sum_;
  int busy_looks_ = 0;
  int link_looks_ = 0;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace moetune
