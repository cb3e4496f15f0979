#include "tuner/targets/tax_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "engine/sync_tax/account.h"
#include "kernels/device_trace.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr double most_recording_share = 0.5;  // of the time for timing
constexpr int most_turns = 4096;
constexpr int runs_per_turn = 3;  // plain, recorded, recorded at twice the cost
constexpr double longest_watch_seconds = 0.5;
constexpr double ns_per_ms = 1e6;

struct Step {
  Account account;  // of a plain step only its length
  StepCauses causes;
};

}  // namespace

// What all runs of one kind came to.
struct TaxRuns {
  std::vector<Step> decode;                  // one per step
  std::vector<Step> prefill;                 // one per run: all its prompts
  std::vector<std::vector<Account>> rounds;  // by run; prompt and answer of each round
  std::vector<Step> whole;                   // one per run: all its steps

  void add(const StepRecorder& recorder, int expected_rounds) {
    Step prompts;
    Step all;
    std::vector<Account> by_round;
    std::optional<Phase> before;
    for (const RecordedStep& recorded : recorder.steps()) {
      Step step{.account = account(recorded.begin_ns, recorded.end_ns, recorder.intervals_of(recorded)),
                .causes = recorded.causes};
      // A round begins where a prompt follows an answer.
      if (!before || (recorded.phase == Phase::prefill && *before == Phase::decode)) by_round.emplace_back();
      before = recorded.phase;
      by_round.back() += step.account;
      all.account += step.account;
      if (recorded.phase == Phase::decode) {
        decode.push_back(step);
        continue;
      }
      prompts.account += step.account;
      prompts.causes += step.causes;
    }
    prefill.push_back(prompts);
    whole.push_back(all);
    // Answers of one token have no step of their own, and then rounds cannot be told apart.
    if (std::ssize(by_round) == expected_rounds) rounds.push_back(std::move(by_round));
  }
};

namespace {

using Runs = TaxRuns;

std::vector<std::int64_t> lengths_of(const std::vector<Step>& steps) {
  std::vector<std::int64_t> lengths;
  for (const Step& step : steps) lengths.push_back(step.account.length_ns);
  return lengths;
}

std::vector<Account> chosen(const std::vector<Step>& steps, const std::vector<std::size_t>& which) {
  std::vector<Account> accounts;
  for (const std::size_t i : which) accounts.push_back(steps[i].account);
  return accounts;
}

TokenCauses causes_of(const std::vector<Step>& steps, const std::vector<std::size_t>& which,
                      bool is_of_host) {
  TokenCauses sum{.is_of_host = is_of_host};
  const double share = 1.0 / static_cast<double>(which.size());
  for (const std::size_t i : which) {
    sum.expert_loads +=
        share * static_cast<double>(steps[i].account.records[static_cast<std::size_t>(Part::expert_loading)]);
    sum.minor_faults += share * static_cast<double>(steps[i].causes.minor_faults);
    sum.major_faults += share * static_cast<double>(steps[i].causes.major_faults);
    sum.preemptions += share * static_cast<double>(steps[i].causes.preemptions);
  }
  return sum;
}

PhaseTax phase_tax(const std::vector<Step>& plain, const std::vector<Step>& recorded,
                   const RecordingCost& cost, bool is_of_host = true) {
  PhaseTax tax;
  const std::vector<std::int64_t> lengths = lengths_of(recorded);
  const std::vector<std::size_t> middle = middle_half(lengths);
  tax.typical = break_down(chosen(recorded, middle), middle_mean(lengths_of(plain)), cost);
  if (!middle.empty()) tax.typical_causes = causes_of(recorded, middle, is_of_host);
  const std::vector<std::size_t> slowest = slowest_hundredth(lengths);
  if (slowest.empty()) return tax;
  // Another run has other slow tokens: the plain time of these is not known but for the cost of their
  // records.
  const std::vector<Account> accounts = chosen(recorded, slowest);
  const Breakdown with_cost = break_down(accounts, 1.0, cost);
  tax.slowest = break_down(accounts, with_cost.recorded_ns - with_cost.recording_ns, cost);
  tax.slowest_causes = causes_of(recorded, slowest, is_of_host);
  return tax;
}

std::vector<RoundTax> round_taxes(const Runs& plain, const Runs& recorded, const RecordingCost& cost,
                                  int rounds) {
  std::vector<RoundTax> taxes;
  if (rounds < 2 || plain.rounds.empty() || recorded.rounds.empty()) return taxes;
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    const auto steps_of = [&](const Runs& runs) {
      std::vector<Step> steps;
      for (const std::vector<Account>& run : runs.rounds)
        steps.push_back({.account = run[round], .causes = {}});
      return steps;
    };
    taxes.push_back({phase_tax(steps_of(plain), steps_of(recorded), cost).typical});
  }
  return taxes;
}

// What was recorded of so many prompts or tasks at once, for one of them.
void divide(Breakdown& breakdown, double count) {
  for (double* value :
       {&breakdown.token_ns, &breakdown.recorded_ns, &breakdown.unexplained_ns, &breakdown.recording_ns})
    *value /= count;
  for (double& value : breakdown.exposed_ns) value /= count;
  for (double& value : breakdown.hidden_ns) value /= count;
  for (double& value : breakdown.row_ns) value /= count;
}

// The clock of a recorder whose records cost twice as much: it looks twice, and keeps what it saw first as
// well.
std::int64_t now_at_twice_the_cost() {
  constexpr std::size_t kept = 4096;
  static thread_local std::array<volatile std::int64_t, kept> seen;
  static thread_local std::size_t next = 0;
  seen[next++ % kept] = StepRecorder::steady_now_ns();
  return StepRecorder::steady_now_ns();
}

// Between ops, where caches hold other things, a record costs more than many empty ones in a row. What the
// dear records add to a step is what the others have added; less than that of empty ones is noise.
RecordingCost cost_in_place(const RecordingCost& empty, const std::vector<Step>& recorded,
                            const std::vector<Step>& dear) {
  if (recorded.empty() || dear.empty()) return empty;
  const double added_ns = middle_mean(lengths_of(dear)) - middle_mean(lengths_of(recorded));
  const auto records = static_cast<double>(recorded.front().account.record_count());
  const double empty_ns = empty.inside_ns + empty.outside_ns;
  if (records <= 0.0 || empty_ns <= 0.0 || added_ns <= records * empty_ns) return empty;
  const double factor = added_ns / records / empty_ns;
  return {.inside_ns = factor * empty.inside_ns, .outside_ns = factor * empty.outside_ns};
}

// One run after another of one workload, recorded or not.
class Recording {
 public:
  Recording(Engine& engine, const Workload& workload, const TokenSource& text)
      : engine_(engine), workload_(workload), text_(text) {}
  ~Recording() { engine_.record_steps(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // host: what the host did is added there.
  void run(StepRecorder& recorder, std::uint64_t number, HostUse* host = nullptr) {
    recorder.clear();
    engine_.record_steps(&recorder);
    if (host == nullptr)
      run_workload(engine_, workload_, text_, number);
    else
      run_watched(number, *host);
    engine_.record_steps(nullptr);
  }

 private:
  void run_watched(std::uint64_t number, HostUse& host) {
    const std::vector<ThreadTime> threads = thread_times();
    const StepCauses causes = StepCauses::so_far();
    const std::int64_t begin_ns = StepRecorder::steady_now_ns();
    run_workload(engine_, workload_, text_, number);
    host.run_ns += static_cast<double>(StepRecorder::steady_now_ns() - begin_ns);
    host.causes += StepCauses::so_far().since(causes);
    add(host.threads, between(threads, thread_times()));
    ++host.runs;
  }

  Engine& engine_;
  const Workload& workload_;
  const TokenSource& text_;
};

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

struct Taken {
  Runs plain;
  Runs recorded;
  TaxResult result;  // cost, counts and the last run
};

void keep_last_run(const StepRecorder& recorder, TaxResult& result) {
  result.last_steps = recorder.steps();
  for (const RecordedStep& step : result.last_steps) {
    const auto intervals = recorder.intervals_of(step);
    result.last_intervals.insert(result.last_intervals.end(), intervals.begin(), intervals.end());
  }
}

using Progress = std::function<void(const std::string& words)>;

void say_turn(const Progress& progress, std::size_t turn) {
  if (progress) progress(fmt::format("recording, turn {}", turn + 1));
}

// Without recording, with it, and with records that cost twice as much, in turns. Who goes first changes: a
// later run of a turn finds caches as the one before left them.
Taken take_on_host(Recording& recording, std::uint64_t number, int rounds, double seconds,
                   std::size_t fewest_turns, const Progress& progress) {
  Taken taken;
  Runs dear;
  StepRecorder plain_recorder(StepRecorder::Detail::steps);
  StepRecorder op_recorder(StepRecorder::Detail::ops);
  StepRecorder dear_recorder(StepRecorder::Detail::ops, &now_at_twice_the_cost);
  const std::array kinds = {std::pair(&plain_recorder, &taken.plain),
                            std::pair(&op_recorder, &taken.recorded), std::pair(&dear_recorder, &dear)};
  recording.run(op_recorder, number);
  std::size_t turn = 0;
  for (const Turns turns(seconds, fewest_turns); turns.go_on(turn); ++turn) {
    say_turn(progress, turn);
    ++number;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto& [recorder, runs] = kinds[(turn + i) % kinds.size()];
      recording.run(*recorder, number, runs == &taken.plain ? &taken.result.host : nullptr);
      runs->add(*recorder, rounds);
    }
  }
  taken.result.host = per_run(std::move(taken.result.host));
  taken.result.recorded_runs = static_cast<std::int64_t>(turn);
  taken.result.cost = cost_in_place(recording_cost(), taken.recorded.decode, dear.decode);
  keep_last_run(op_recorder, taken.result);
  return taken;
}

// In runs of their own, because asking costs time; long enough for counters that are averages themselves.
GpuUse use_by_driver(Recording& recording, StepRecorder& recorder, std::uint64_t number, double seconds) {
  GpuWatch watch;
  std::size_t turn = 0;
  for (const Turns turns(std::min(seconds, longest_watch_seconds), kFewestTurns); turns.go_on(turn); ++turn)
    recording.run(recorder, number + 1 + turn);
  return watch.finish();
}

PlainRuns take_plain(Recording& recording, std::uint64_t number, int rounds, double seconds,
                     std::size_t fewest_turns, const Progress& progress) {
  PlainRuns taken;
  taken.runs = std::make_shared<Runs>();
  StepRecorder recorder(StepRecorder::Detail::steps);
  recording.run(recorder, number);
  for (const Turns turns(seconds, fewest_turns); turns.go_on(taken.turns); ++taken.turns) {
    say_turn(progress, taken.turns);
    recording.run(recorder, number + 1 + taken.turns, &taken.host);
    taken.runs->add(recorder, rounds);
  }
  taken.host = per_run(std::move(taken.host));
  taken.chains = measure_chains();
  taken.use = use_by_driver(recording, recorder, number, seconds);
  return taken;
}

// The same runs again, behind one in which graphs are captured with labels.
Taken take_on_device(Recording& recording, std::uint64_t number, int rounds, double seconds,
                     std::size_t fewest_turns, const PlainRuns& plain, const Progress& progress) {
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
  for (const Turns turns(seconds, fewest_turns); turns.go_on(turn) && turn < plain.turns; ++turn) {
    say_turn(progress, turn);
    trace.start();
    recording.run(recorder, number + 1 + turn);
    taken.result.last_records = trace.finish();
    taken.result.unlabelled_kernels += recorder.take(taken.result.last_records, taken.result.device_cost);
    taken.recorded.add(recorder, rounds);
  }
  taken.result.recorded_runs = static_cast<std::int64_t>(turn);
  keep_last_run(recorder, taken.result);
  return taken;
}

// Everybody starts at once.
Workload without_pauses(Workload workload) {
  workload.poisson_arrivals = false;
  workload.arrivals_per_s = 0.0;
  workload.tool_gap_seconds = 0.0;
  return workload;
}

std::uint64_t first_run(const Workload& workload) { return workload.seed * 1000; }

}  // namespace

PlainRuns plain_runs(Engine& engine, const Workload& workload, const TokenSource& text, double seconds) {
  const Workload together = without_pauses(workload);
  Recording recording(engine, together, text);
  return take_plain(recording, first_run(workload), workload.rounds, seconds, kFewestTurns, {});
}

TaxResult measure_tax(Engine& engine, const Workload& workload, const TokenSource& text, double seconds,
                      const std::function<void(const std::string& words)>& progress, const PlainRuns* plain,
                      std::size_t fewest_turns) {
  const Workload together = without_pauses(workload);
  Recording recording(engine, together, text);
  const std::uint64_t number = first_run(workload);
  const int rounds = workload.rounds;
  if (progress) progress("warming up");
  Taken taken;
  if (engine.options().device == DeviceKind::cpu) {
    taken = take_on_host(recording, number, rounds, seconds, fewest_turns, progress);
  } else {
    if (const std::string problem = DeviceTrace::why_not(); !problem.empty())
      throw std::runtime_error(problem);
    const PlainRuns own = plain != nullptr
                              ? *plain
                              : take_plain(recording, number, rounds, seconds / 2, fewest_turns, progress);
    taken = take_on_device(recording, number, rounds, seconds / 2, fewest_turns, own, progress);
  }
  TaxResult& result = taken.result;
  result.decode = phase_tax(taken.plain.decode, taken.recorded.decode, result.cost, !result.is_of_kernels);
  result.prefill = phase_tax(taken.plain.prefill, taken.recorded.prefill, result.cost);
  const double prompts = static_cast<double>(workload.sequences) * rounds;
  divide(result.prefill.typical, prompts);
  if (result.prefill.slowest) divide(*result.prefill.slowest, prompts);
  result.task = phase_tax(taken.plain.whole, taken.recorded.whole, result.cost).typical;
  divide(result.task, workload.sequences);
  result.rounds = round_taxes(taken.plain, taken.recorded, result.cost, rounds);
  return std::move(result);
}

Metrics tax_metrics(const Breakdown& decode) {
  Metrics metrics;
  if (!decode.refused.empty()) return metrics;
  const auto add = [&](const std::string& name, double value) {
    Measurement& measurement = metrics[name];
    measurement.value = value;
    measurement.n = decode.n;
  };
  add("tax_share", decode.tax_share());
  add("tax_token_ms", decode.token_ns / ns_per_ms);
  for (std::size_t part = 0; part < kParts; ++part)
    add(fmt::format("tax_{}_ms", kPartNames[part]), decode.exposed_ns[part] / ns_per_ms);
  add("tax_unexplained_ms", decode.unexplained_ns / ns_per_ms);
  return metrics;
}

bool is_worth_recording(const Workload& workload, double tokens_per_s, double latency_seconds) {
  const double tokens = static_cast<double>(workload.sequences) * workload.rounds * workload.output_tokens;
  // One run warms up.
  const double seconds = (1 + runs_per_turn * kFewestTurns) * tokens / tokens_per_s;
  return seconds < most_recording_share * latency_seconds;
}

}  // namespace moetune
