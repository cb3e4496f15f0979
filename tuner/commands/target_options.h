// What is measured and how long one trial may take: options of tune and measure, some for tests only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/commands/common_options.h"
#include "tuner/commands/study.h"
#include "tuner/trial_runner.h"

namespace moetune {

struct TargetOptions {
  std::string target = "engine";
  std::string synthetic;                     // settings of the synthetic target, JSON
  double trial_limit_seconds = 0.0;          // 0: the default
  std::int64_t host_memory_limit_bytes = 0;  // 0: nearly all that this process may use
  double injected_delay_ms = 0.0;            // into every layer of the engine

  // latency_seconds: time for timing one configuration, which the watchdog has to allow for. budget_seconds:
  // of the whole study; one configuration may not take longer than that where no other limit is given. 0:
  // none.
  TrialRunnerSettings runner_settings(const Study& study, double latency_seconds,
                                      double budget_seconds = 0.0) const;
  // How long one run of the workload may take in a search: a configuration is measured by two of them at
  // least, and a search that spends more than a third of its budget on one of them is none.
  double run_limit_seconds(double latency_seconds, double budget_seconds) const;
};

// Returns those for tests.
std::vector<CLI::Option*> add_target_options(CLI::App& command, TargetOptions& target);

// One per workload.
std::vector<Study> studies_of(const CommonOptions& common, const TargetOptions& target,
                              double latency_seconds);

}  // namespace moetune
