#include "tuner/targets/run_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "tuner/durable_file.h"
#include "tuner/sample_series.h"
#include "tuner/utc_time.h"

namespace moetune {

RunWatch::RunWatch(const std::string& samples_file, ThrottleCounter throttled)
    : samples_file_(samples_file), throttle_(std::move(throttled)) {
  if (samples_file_.empty()) return;
  file_ = open_file(samples_file_, O_WRONLY | O_APPEND);
  if (!file_.is_open()) throw std::runtime_error(samples_file_ + ": " + error_text(errno));
  write(process_line({.pid = ::getpid(), .started = utc_now(), .runs = {}}));
}

bool RunWatch::add(const RunTimes& times, bool is_warm_up) {
  const bool is_throttled = throttle_.was_throttled();
  if (!file_.is_open()) return !is_throttled;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const SampleRun run{.at_s = std::max(0.0, now - times.seconds),
                .ttft_ms = times.mean_first_token_ms(),
                .tpot_ms = times.token_ms.empty() ? 0.0 : times.mean_token_ms(),
                .token_ms = times.token_ms,
                .is_warm_up = is_warm_up,
                .is_throttled = is_throttled};
  write(run_line(run));
  return !is_throttled;
}

void RunWatch::write(const std::string& line) const {
  if (!write_all(file_.number(), line)) throw std::runtime_error(samples_file_ + ": " + error_text(errno));
}

}  // namespace moetune
