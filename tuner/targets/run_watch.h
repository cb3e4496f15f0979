// Looks at every run of a workload while it is measured: keeps its raw times where a file was asked for, and says whether the
// machine was held back meanwhile. Start at RunWatch::add().
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "tuner/descriptor.h"
#include "tuner/targets/throttle.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

class RunWatch {
 public:
  // samples_file: lines are appended to it (sample_series.h), beginning with this process's; empty: nothing is kept. Throws
  // std::runtime_error when it cannot be written.
  RunWatch(const std::string& samples_file, ThrottleCounter throttled);

  // False: throttled, which the file says too. To be called right after the run.
  bool add(const RunTimes& times, bool is_warm_up);

 private:
  void write(const std::string& line) const;

  std::string samples_file_;
  Descriptor file_;
  ThrottleWatch throttle_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace moetune
