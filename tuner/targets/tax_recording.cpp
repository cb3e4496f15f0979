#include "tuner/targets/tax_recording.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include "kernels/device_trace.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr int most_turns = 4096;
constexpr double longest_watch_seconds = 0.5;

// The clock of a recorder whose records cost twice as much: it looks twice, and keeps what it saw first as
// well.
std::int64_t now_at_twice_the_cost() {
  constexpr std::size_t kept = 4096;
  static thread_local std::array<volatile std::int64_t, kept> seen;
  static thread_local std::size_t next = 0;
  seen[next++ % kept] = StepRecorder::steady_now_ns();
  return StepRecorder::steady_now_ns();
}

// The mean of its runs, but for counts.
HostUse per_run(HostUse host) {
  const std::int64_t runs = std::max<std::int64_t>(1, host.runs);
  host.run_ns /= static_cast<double>(runs);
  for (ThreadTime& thread : host.threads) {
    thread.running_ns /= runs;
    thread.waiting_ns /= runs;
  }
  return host;
}

// How long to go on.
class Turns {
 public:
  Turns(double seconds, std::size_t fewest) : seconds_(seconds), fewest_(fewest) {}
  // To be asked before each.
  bool go_on(std::size_t done) const {
    const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    return done < most_turns && (done < fewest_ || spent < seconds_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  std::size_t fewest_;
  Clock::time_point start_ = Clock::now();
};

void keep_last_run(const StepRecorder& recorder, TaxResult& result) {
  result.last_steps = recorder.steps();
  for (const RecordedStep& step : result.last_steps) {
    const auto intervals = recorder.intervals_of(step);
    result.last_intervals.insert(result.last_intervals.end(), intervals.begin(), intervals.end());
  }
}

void say_turn(const TurnLimits& limits, std::size_t turn) {
  if (limits.progress) limits.progress(fmt::format("recording, turn {}", turn + 1));
}

// In runs of their own, because asking costs time; long enough for counters that are averages themselves.
GpuUse use_by_driver(Recording& recording, StepRecorder& recorder, std::uint64_t number, double seconds) {
  GpuWatch watch;
  std::size_t turn = 0;
  for (const Turns turns(std::min(seconds, longest_watch_seconds), kFewestTurns); turns.go_on(turn); ++turn)
    recording.run(recorder, number + 1 + turn);
  return watch.finish();
}

}  // namespace

void Recording::run(StepRecorder& recorder, std::uint64_t number, HostUse* host) {
  recorder.clear();
  engine_.record_steps(&recorder);
  if (host == nullptr)
    run_workload(engine_, workload_, text_, number);
  else
    run_watched(number, *host);
  engine_.record_steps(nullptr);
}

void Recording::run_watched(std::uint64_t number, HostUse& host) {
  const std::vector<ThreadTime> threads = thread_times();
  const StepCauses causes = StepCauses::so_far();
  const std::int64_t begin_ns = StepRecorder::steady_now_ns();
  run_workload(engine_, workload_, text_, number);
  host.run_ns += static_cast<double>(StepRecorder::steady_now_ns() - begin_ns);
  host.causes += StepCauses::so_far().since(causes);
  add(host.threads, between(threads, thread_times()));
  ++host.runs;
}

// Who goes first changes: a later run of a turn finds caches as the one before left them.
Taken take_on_host(Recording& recording, const TurnLimits& limits) {
  std::uint64_t number = limits.first_run;
  Taken taken;
  TaxRuns dear;
  StepRecorder plain_recorder(StepRecorder::Detail::steps);
  StepRecorder op_recorder(StepRecorder::Detail::ops);
  StepRecorder dear_recorder(StepRecorder::Detail::ops, &now_at_twice_the_cost);
  const std::array kinds = {std::pair(&plain_recorder, &taken.plain),
                            std::pair(&op_recorder, &taken.recorded), std::pair(&dear_recorder, &dear)};
  recording.run(op_recorder, number);
  std::size_t turn = 0;
  for (const Turns turns(limits.seconds, limits.fewest_turns); turns.go_on(turn); ++turn) {
    say_turn(limits, turn);
    ++number;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto& [recorder, runs] = kinds[(turn + i) % kinds.size()];
      recording.run(*recorder, number, runs == &taken.plain ? &taken.result.host : nullptr);
      runs->add(*recorder, limits.rounds);
    }
  }
  taken.result.host = per_run(std::move(taken.result.host));
  taken.result.recorded_runs = static_cast<std::int64_t>(turn);
  taken.result.cost = cost_in_place(recording_cost(), taken.recorded.decode, dear.decode);
  keep_last_run(op_recorder, taken.result);
  return taken;
}

PlainRuns take_plain(Recording& recording, const TurnLimits& limits) {
  const std::uint64_t number = limits.first_run;
  PlainRuns taken;
  taken.runs = std::make_shared<TaxRuns>();
  StepRecorder recorder(StepRecorder::Detail::steps);
  recording.run(recorder, number);
  for (const Turns turns(limits.seconds, limits.fewest_turns); turns.go_on(taken.turns); ++taken.turns) {
    say_turn(limits, taken.turns);
    recording.run(recorder, number + 1 + taken.turns, &taken.host);
    taken.runs->add(recorder, limits.rounds);
  }
  taken.host = per_run(std::move(taken.host));
  taken.chains = measure_chains();
  taken.use = use_by_driver(recording, recorder, number, limits.seconds);
  return taken;
}

Taken take_on_device(Recording& recording, const TurnLimits& limits, const PlainRuns& plain) {
  const std::uint64_t number = limits.first_run;
  Taken taken;
  taken.plain = *plain.runs;
  taken.result.use = plain.use;
  taken.result.host = plain.host;
  taken.result.is_of_kernels = true;
  DeviceTrace trace;
  StepRecorder recorder(&DeviceTrace::now_ns, trace.labels());
  trace.start();
  const ChainTimes recorded_chains = measure_chains();
  trace.finish();
  taken.result.device_cost = device_recording_cost(plain.chains, recorded_chains);
  recording.run(recorder, number);
  std::size_t turn = 0;
  for (const Turns turns(limits.seconds, limits.fewest_turns); turns.go_on(turn) && turn < plain.turns;
       ++turn) {
    say_turn(limits, turn);
    trace.start();
    recording.run(recorder, number + 1 + turn);
    taken.result.last_records = trace.finish();
    taken.result.unlabelled_kernels += recorder.take(taken.result.last_records, taken.result.device_cost);
    taken.recorded.add(recorder, limits.rounds);
  }
  taken.result.recorded_runs = static_cast<std::int64_t>(turn);
  keep_last_run(recorder, taken.result);
  return taken;
}

}  // namespace moetune
