#include "tuner/targets/latency.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "tuner/statistics.h"
#include "tuner/stop_rule.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr double narrow_interval = 0.03;       // of the median
constexpr std::int64_t fewest_runs = 16;
constexpr double spread_share = 0.5;           // of the measuring time, at least: a machine's mood lasts longer than 16 runs
constexpr double warm_up_share = 0.25;         // of the measuring time, at most
constexpr std::uint64_t window_stride = 1000;  // window numbers of one seed do not meet those of the next

// Words now and then: the reader wakes up for them, on a core that is being measured.
class OccasionalWords {
 public:
  explicit OccasionalWords(const std::function<void(const std::string& words)>& say) : say_(say) {}

  void operator()(const std::string& words) {
    const Clock::time_point now = Clock::now();
    if (said_ && now - last_ < std::chrono::milliseconds(500)) return;
    said_ = true;
    last_ = now;
    say_(words);
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::function<void(const std::string& words)>& say_;
  bool said_ = false;
  Clock::time_point last_;
};

// What a run is judged by while measuring: the decoded token, or the first one where the answer has no second.
double sample_of(const RunTimes& times) { return times.token_ms.empty() ? times.mean_first_token_ms() : times.mean_token_ms(); }

}  // namespace

LatencyResult measure_latency(Engine& engine, const Workload& workload, const TokenSource& text, double most_seconds,
                              const std::function<void(const std::string& words)>& progress) {
  OccasionalWords say(progress);
  std::uint64_t window = workload.seed * window_stride;
  WarmUp warm_up;
  double run_seconds = 0.0;
  for (double seconds = 0.0; !warm_up.steady() && (warm_up.count() == 0 || seconds < warm_up_share * most_seconds);) {
    say(fmt::format("warming up, run {}", warm_up.count() + 1));
    const RunTimes times = run_workload(engine, workload, text, window++);
    warm_up.add(sample_of(times));
    seconds += times.seconds;
    run_seconds = times.seconds;
  }

  engine.reset_stats();
  const auto spread_runs = static_cast<std::int64_t>(spread_share * most_seconds / run_seconds);
  StopRule stop({.relative_width = narrow_interval,
                 .at_least = std::max(fewest_runs, spread_runs),
                 .seconds = most_seconds});
  std::vector<double> run_token_ms;
  std::vector<double> token_ms;
  std::vector<double> first_token_ms;
  std::vector<double> tokens_per_s;
  // A budget that one run exceeds still gives a number, with no interval.
  while (!stop.done()) {
    say(fmt::format("timing, run {}", stop.count() + 1));
    const RunTimes times = run_workload(engine, workload, text, window++);
    first_token_ms.push_back(times.mean_first_token_ms());
    tokens_per_s.push_back(times.tokens_per_s());
    if (!times.token_ms.empty()) run_token_ms.push_back(times.mean_token_ms());
    token_ms.insert(token_ms.end(), times.token_ms.begin(), times.token_ms.end());
    stop.add(sample_of(times), times.seconds);
  }

  LatencyResult result;
  result.stats = engine.stats();
  if (!run_token_ms.empty()) {
    Measurement& tpot = result.metrics["tpot_ms"] = time_measurement(run_token_ms, stop.reason());
    tpot.p99 = p99(token_ms);
    tpot.n = std::ssize(token_ms);
  }
  result.metrics["ttft_ms"] = time_measurement(first_token_ms, stop.reason());
  result.metrics["tokens_per_s"] = time_measurement(tokens_per_s, stop.reason());
  result.metrics["tokens_per_s"].p99.reset();  // of a rate the high end is the good one
  return result;
}

}  // namespace moetune
