#include "tuner/targets/workload_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "engine/scheduler.h"
#include "tuner/targets/tasks.h"
#include "tuner/targets/tool_work.h"

namespace moetune {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr int steps_before_judging = 4;  // where a run has a limit: the first one may hold what is done once

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// How far a task has come.
struct Progress {
  std::size_t next = 0;         // of its requests
  double round_began_ms = 0.0;  // of the round that the next request belongs to
  bool runs = false;            // the request before it is not done
};

class Run {
 public:
  Run(TimedEngine engine, const Workload& workload, const TokenSource& text, std::uint64_t number,
      double most_seconds)
      : engine_(std::move(engine)),
        most_seconds_(most_seconds),
        workload_(workload),
        scheduler_(engine_.engine().limits(), engine_.engine().options().prefix_cache),
        tasks_(tasks_of(workload, text, number, engine_.engine().options().prefix_cache)),
        progress_(tasks_.size()) {
    times_.task_ms.resize(tasks_.size());
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      progress_[task].round_began_ms = tasks_[task].arrives_ms;
      for (const TaskRequest& request : tasks_[task].requests) all_tokens_ += request.answer_tokens;
    }
  }

  RunTimes operator()() {
    const RunStats before = engine_.engine().stats();
    while (true) {
      while (add_what_arrived()) {
      }
      if (!scheduler_.is_idle()) {
        run_batch();
        continue;
      }
      const auto [task, arrives_ms] = next_arrival();
      if (arrives_ms == never) break;
      idle_ms_ += arrives_ms - engine_.now_ms();
      engine_.wait_until(arrives_ms);
    }
    const RunStats after = engine_.engine().stats();
    times_.loading_ms = 1e3 * (after.expert_load_seconds - before.expert_load_seconds);
    times_.communication_ms = 1e3 * (after.communication_seconds - before.communication_seconds);
    times_.seconds = 1e-3 * (engine_.now_ms() - (workload_.poisson_arrivals ? 0.0 : idle_ms_));
    times_.reused_tokens = scheduler_.reused_tokens();
    times_.tools_played = tools_.runs();
    return std::move(times_);
  }

 private:
  struct Sent {
    std::size_t task;
    std::size_t place;  // among the task's requests
    std::size_t times;  // of times_.requests; typed pieces have none
  };

  const TaskRequest& request_of(const Sent& sent) const { return tasks_[sent.task].requests[sent.place]; }

  // The task whose next request is due first, and when.
  std::pair<std::size_t, double> next_arrival() const {
    std::pair<std::size_t, double> first{0, never};
    for (std::size_t task = 0; task < tasks_.size(); ++task) {
      const Progress& progress = progress_[task];
      if (progress.runs || progress.next == tasks_[task].requests.size()) continue;
      const double at_ms = progress.round_began_ms + tasks_[task].requests[progress.next].offset_ms;
      if (at_ms < first.second) first = {task, at_ms};
    }
    return first;
  }

  bool add_what_arrived() {
    const auto [task, arrived_ms] = next_arrival();
    if (arrived_ms > engine_.now_ms()) return false;
    Progress& progress = progress_[task];
    const Sent sent{.task = task, .place = progress.next, .times = times_.requests.size()};
    const TaskRequest& request = request_of(sent);
    progress.runs = true;
    ++progress.next;
    scheduler_.add({.text = tasks_[task].text,
                    .prompt_tokens = request.prompt_tokens,
                    .answer_tokens = request.answer_tokens});
    sent_.push_back(sent);
    if (request.answer_tokens > 0)
      times_.requests.push_back(
          {.arrived_ms = arrived_ms, .task = static_cast<int>(task), .tokens = request.answer_tokens});
    return true;
  }

  // So many steps that no arrival is missed for which there is room, as far as the last steps tell.
  int steps_ahead() const {
    if (most_seconds_ != no_limit && shortest_step_ms_ == never) return steps_before_judging;
    const double arrives_ms = next_arrival().second;
    if (!scheduler_.has_free_slot() || arrives_ms == never) return workload_.output_tokens;
    if (step_ms_ <= 0.0) return 1;
    return static_cast<int>(std::clamp((arrives_ms - engine_.now_ms()) / step_ms_, 1.0, double{1 << 20}));
  }

  void run_batch() {
    const Batch batch = scheduler_.next(steps_ahead());
    for (const int request : batch.began)
      if (const Sent& sent = sent_[static_cast<std::size_t>(request)]; request_of(sent).answer_tokens > 0)
        times_.requests[sent.times].began_ms = engine_.now_ms();
    const double start_ms = engine_.now_ms();
    std::vector<double> after_ms;
    if (batch.decode_steps > 0) {
      after_ms = engine_.decode(
          {.first = batch.tokens, .steps = batch.decode_steps, .forced = batch.forced, .sampling = {}});
      step_ms_ = (engine_.now_ms() - start_ms) / batch.decode_steps;
      double before_ms = start_ms;
      for (const double now_ms : after_ms)
        shortest_step_ms_ = std::min(shortest_step_ms_, now_ms - std::exchange(before_ms, now_ms));
    } else {
      engine_.forward(batch.tokens);
      after_ms.push_back(engine_.now_ms());
    }
    for (const ServedToken& token : scheduler_.ran(batch))
      came_out(sent_[static_cast<std::size_t>(token.request)], token,
               after_ms[static_cast<std::size_t>(token.step)]);
    if (most_seconds_ != no_limit) insist_on_limit();
  }

  // A step gives each sequence one token at most, so there are at least so many more.
  void insist_on_limit() {
    const bool has_decoded = shortest_step_ms_ != never;
    const double steps = std::ceil(static_cast<double>(all_tokens_ - times_.output_tokens) /
                                   engine_.engine().limits().sequences);
    const double busy_ms = engine_.now_ms() - idle_ms_;
    const double seconds = 1e-3 * (busy_ms + (has_decoded ? steps * shortest_step_ms_ : 0.0));
    if (seconds > most_seconds_)
      throw RunTooLong(seconds, has_decoded ? shortest_step_ms_ : 0.0, most_seconds_);
  }

  void came_out(const Sent& sent, const ServedToken& token, double at_ms) {
    if (token.index >= 0) {
      RequestTimes& times = times_.requests[sent.times];
      if (token.index == 0)
        times.first_ms = at_ms;
      else
        times_.token_ms.push_back(at_ms - times.last_ms);
      times.last_ms = at_ms;
      ++times_.output_tokens;
      if (token.is_last) times_.task_ms[sent.task] += times.total_ms();
    }
    if (token.is_last) ended(sent, at_ms);
  }

  void ended(const Sent& sent, double at_ms) {
    Progress& progress = progress_[sent.task];
    progress.runs = false;
    const std::vector<TaskRequest>& requests = tasks_[sent.task].requests;
    if (progress.next == requests.size() || requests[progress.next].round == request_of(sent).round) return;
    progress.round_began_ms = at_ms + 1e3 * workload_.tool_gap_seconds;
    tools_.run(workload_.tool_gap_seconds);
  }

  TimedEngine engine_;
  double most_seconds_;
  const Workload& workload_;
  Scheduler scheduler_;
  std::vector<Task> tasks_;
  std::vector<Progress> progress_;  // by task
  std::vector<Sent> sent_;          // by the scheduler's number
  ToolWork tools_;
  double idle_ms_ = 0.0;
  double step_ms_ = 0.0;  // of the last decoding; 0: there was none
  double shortest_step_ms_ = never;
  std::int64_t all_tokens_ = 0;  // of all answers
  RunTimes times_;
};

}  // namespace

double RunTimes::mean_token_ms() const { return mean(token_ms); }
double RunTimes::mean_first_token_ms() const { return mean(first_token_ms()); }

std::vector<double> RunTimes::first_token_ms() const {
  std::vector<double> all;
  for (const RequestTimes& request : requests) all.push_back(request.ttft_ms());
  return all;
}

EngineLimits limits_of(const Workload& workload, const EngineOptions& options) {
  const int longest_step =
      options.device == DeviceKind::cuda ? 4096 : 512;  // reports/decisions/0010-gpu-prompts.md
  // Where requests queue, more sequences than the workload counts with can be of use; beyond, all of them run
  // already.
  const int sequences = workload.poisson_arrivals && options.max_sequences > 0
                            ? std::min(options.max_sequences, 2 * workload.sequences)
                            : workload.sequences;
  // A whole prompt beside the others' tokens, as far as one step goes.
  const int whole = workload.prompt_tokens + sequences - 1;
  return {.sequences = sequences,
          .context_tokens = workload.context_tokens(),
          .step_tokens = std::max({sequences, std::min(whole, longest_step), 1})};
}

std::optional<Objection> objection_to_load(const Workload& workload, const EngineOptions& options) {
  const int most = workload.poisson_arrivals ? 2 * workload.sequences : workload.sequences;
  if (options.max_sequences > most)
    return Objection{"max_sequences",
                     fmt::format("{} where never more than {} can run at once", options.max_sequences, most),
                     fmt::format("1 .. {}, auto", most)};
  const bool repeats_prompts = workload.rounds > 1 || (workload.prewarmed && workload.typed_pieces > 1);
  if (!options.prefix_cache && !repeats_prompts)
    return Objection{"prefix_cache", "off where no prompt begins with what was read before", "on"};
  return std::nullopt;
}

std::string pauses_note(const Workload& workload) {
  std::vector<std::string> notes;
  if (workload.rounds > 1 && workload.tool_gap_seconds > 0.0)
    notes.push_back(
        fmt::format("tool gaps: {:.0f} ms of each {:.0f} ms are played with every core busy, the rest is "
                    "counted, not waited for; "
                    "neither is part of a time here",
                    1e3 * std::min(ToolWork::played_seconds, workload.tool_gap_seconds),
                    1e3 * workload.tool_gap_seconds));
  if (workload.typed_pieces > 1)
    notes.emplace_back("typing: pauses between keys are counted, not waited for");
  if (workload.poisson_arrivals)
    notes.emplace_back("arrivals: idle time until the next one is counted, not waited for");
  return fmt::format("{}", fmt::join(notes, "; "));
}

RunTooLong::RunTooLong(double seconds, double step_ms, double most_seconds)
    : std::runtime_error(
          step_ms > 0.0
              ? fmt::format(
                    "one run of the workload takes {:.3g} s or more, as a step of decoding takes {:.3g} "
                    "ms, and may take {:.3g} s",
                    seconds, step_ms, most_seconds)
              : fmt::format("one run of the workload has spent {:.3g} s on prompts and may take {:.3g} s",
                            seconds, most_seconds)) {}

RunTimes run_workload(Engine& engine, const Workload& workload, const TokenSource& text, std::uint64_t run,
                      const StepPrice& price, double most_seconds) {
  return Run(TimedEngine(engine, price), workload, text, run, most_seconds)();
}

}  // namespace moetune
