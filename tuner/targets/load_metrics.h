// What runs of a workload say beside the time of its tokens: goodput, queueing, single requests, whole tasks.
// Start at LoadSamples.
#pragma once

#include <string>
#include <vector>

#include "engine/facts/workload.h"
#include "tuner/measurement.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

class LoadSamples {
 public:
  // knows_tax: everything that keeps a token from being computed is counted (on a GPU it is not).
  LoadSamples(const Workload& workload, bool knows_tax) : workload_(workload), knows_tax_(knows_tax) {}

  void add(const RunTimes& times);
  // goodput_per_s, queue_ms, request_tpot_ms, task_ms, task_tax_ms: those that the workload has. At least one
  // run. stopped: why measuring ended.
  Metrics metrics(const std::string& stopped) const;

 private:
  bool judges() const;

  const Workload& workload_;
  bool knows_tax_;
  // Of each run.
  std::vector<double> goodput_per_s_;
  std::vector<double> mean_queue_ms_;
  std::vector<double> mean_tpot_ms_;
  std::vector<double> mean_task_ms_;
  std::vector<double> tax_ms_;
  // Of all of them.
  std::vector<double> queue_ms_;
  std::vector<double> tpot_ms_;
  std::vector<double> task_ms_;
};

// Median and interval over runs; p99 and n over the single ones.
Measurement over_runs(const std::vector<double>& runs, const std::vector<double>& single,
                      const std::string& stopped);

}  // namespace moetune
