// What runs of a workload say beside the time of its tokens: goodput, queueing, single requests, whole tasks.
// Start at LoadSamples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/facts/workload.h"
#include "tuner/measurement.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

class LoadSamples {
 public:
  explicit LoadSamples(const Workload& workload) : workload_(workload) {}

  void add(const RunTimes& times);
  // goodput_per_s (task_goodput_per_s, where the level is about tasks), queue_ms, request_tpot_ms, task_ms,
  // task_tax_ms: those that the workload has. At least one run. stopped: why measuring ended.
  // uncounted_tax_ms: service_level.h; empty: not known, and with it neither task_tax_ms nor the goodput by
  // it.
  Metrics metrics(const std::string& stopped, std::optional<double> uncounted_tax_ms) const;

 private:
  bool is_judged_by_tax() const { return workload_.slo.metric == "task_tax"; }

  const Workload& workload_;
  // Of each run.
  std::vector<double> goodput_per_s_;  // where the tax is not needed for it
  std::vector<RunTimes> waits_;        // of tasks: only what the tax needs of a run
  std::vector<double> mean_queue_ms_;
  std::vector<double> mean_tpot_ms_;
  std::vector<double> mean_task_ms_;
  // Of all of them.
  std::vector<double> queue_ms_;
  std::vector<double> tpot_ms_;
  std::vector<double> task_ms_;
};

// Median and interval over runs; p99 and n over the single ones.
Measurement over_runs(const std::vector<double>& runs, const std::vector<double>& single,
                      const std::string& stopped);

}  // namespace moetune
