#include "tuner/trial_runner.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/facts/size_text.h"
#include "tuner/memory_kills.h"
#include "tuner/printable.h"
#include "tuner/utc_time.h"
#include "tuner/worker_process.h"

namespace moetune {
namespace {
using Clock = WorkerProcess::Clock;
constexpr int tries = 2;
constexpr double worth_naming_seconds = 5.0;  // of a worker's start, where the trial itself runs out of time

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// An InputError that crossed the pipe as a text. Its parts are put together again so that the message reads
// as before.
[[noreturn]] void throw_as_input_error(const std::string& text) {
  const auto colon = text.find(": ");
  if (colon == std::string::npos) throw InputError("worker", text, "");
  throw InputError(text.substr(0, colon), text.substr(colon + 2), "");
}

// "; it was loading weights; last words: ..."
std::string circumstances(const std::string& doing, const std::string& last_words) {
  return (doing.empty() ? "" : "; it was at: " + doing) +
         (last_words.empty() ? "" : "; last words: " + last_words);
}

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

std::string too_much_memory(std::int64_t bytes, std::int64_t limit) {
  return fmt::format("the worker held {} of host memory, more than its limit of {}", size_text(bytes),
                     size_text(limit));
}
}  // namespace

TrialRunner::TrialRunner(TrialRunnerSettings settings, const Interruption& interruption)
    : settings_(std::move(settings)), interruption_(interruption) {
  if (settings_.memory_kill_counter.empty()) settings_.memory_kill_counter = memory_kill_counter_file();
  if (!settings_.calendar) settings_.calendar = [] { return std::chrono::system_clock::now(); };
}

TrialRunner::~TrialRunner() {
  if (!settings_.seat || !worker_ || worker_->has_ended()) return;
  worker_->report_to({}, {});
  settings_.seat->worker = std::move(worker_);
}

std::optional<Trial> TrialRunner::run(std::int64_t number, const Configuration& configuration,
                                      std::uint64_t seed) {
  Trial trial;
  trial.number = number;
  trial.configuration = configuration;
  trial.seed = seed;
  trial.started = utc_now();
  const auto begin = Clock::now();
  const auto calendar_begin = settings_.calendar();
  std::string earlier;
  for (int tried = 1;; ++tried) {
    const auto start_begin = Clock::now();
    if (!start_worker()) return std::nullopt;
    const double start_seconds = std::chrono::duration<double>(Clock::now() - start_begin).count();
    Attempt last = attempt(number, configuration, seed);
    if (last.interrupted) return std::nullopt;
    if (last.worth_retrying && tried < tries) {
      earlier = last.result.reason;
      if (settings_.on_message)
        settings_.on_message(
            fmt::format("trial {}: the worker {}; trying once more in a fresh one", number, earlier));
      continue;
    }
    trial.outcome = last.result.outcome;
    trial.reason = last.result.reason;
    if (trial.outcome == Outcome::timed_out && start_seconds > worth_naming_seconds)
      trial.reason += fmt::format("; the worker's start before that: {:.3g} s", start_seconds);
    trial.metrics = std::move(last.result.metrics);
    if (last.worth_retrying)
      trial.reason = "the worker " + trial.reason +
                     (earlier == last.result.reason ? " (twice)" : " (at first it " + earlier + ")");
    trial.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    trial.clock_jump_seconds = clock_jump(number, calendar_begin, trial.seconds);
    return trial;
  }
}

std::optional<double> TrialRunner::clock_jump(std::int64_t number,
                                              std::chrono::system_clock::time_point calendar_begin,
                                              double seconds) {
  constexpr double usual_drift_seconds = 1.0;  // a clock that is being adjusted slowly
  const double moved = std::chrono::duration<double>(settings_.calendar() - calendar_begin).count() - seconds;
  if (std::abs(moved) <= usual_drift_seconds) return std::nullopt;
  if (settings_.on_message)
    settings_.on_message(fmt::format(
        "trial {}: the system clock jumped by {:+.0f} s meanwhile, or the machine was suspended; times are "
        "taken with another clock and hold",
        number, moved));
  return moved;
}

TrialRunner::Attempt TrialRunner::attempt(std::int64_t number, const Configuration& configuration,
                                          std::uint64_t seed) {
  const auto kills_before = memory_kills(settings_.memory_kill_counter);
  const auto deadline = after(settings_.trial_limit_seconds);
  doing_.clear();
  stages_ = {};
  worker_->send(message::Measure{.trial = number, .configuration = configuration, .seed = seed});
  while (true) {
    const WorkerEvent event = worker_->wait(deadline);
    if (const FromWorker* said = std::get_if<FromWorker>(&event)) {
      if (const auto* progress = std::get_if<message::Progress>(said)) {
        say_progress(progress->text);
        continue;
      }
      const auto* answer = std::get_if<message::Result>(said);
      if (answer != nullptr && answer->trial == number) return {.result = answer->result};
    }
    return without_answer(event, number, kills_before);
  }
}

TrialRunner::Attempt TrialRunner::without_answer(const WorkerEvent& event, std::int64_t number,
                                                 std::optional<std::uint64_t> kills_before) {
  const std::unique_ptr<WorkerProcess> worker = std::move(worker_);
  const auto failed = [&](Outcome outcome, const std::string& why) {
    return Attempt{.result = {.outcome = outcome,
                              .reason = why + circumstances(doing_, worker->last_words()),
                              .metrics = {}},
                   .worth_retrying = outcome == Outcome::crashed};
  };
  if (std::holds_alternative<worker_event::Interrupted>(event)) {
    worker->kill();
    return {.result = {}, .interrupted = true};
  }
  if (std::holds_alternative<worker_event::TimedOut>(event)) {
    const std::string in_flight = worker->ask_in_flight();
    const std::string stages = stages_.text(seconds_now());
    worker->kill();
    return failed(Outcome::timed_out, fmt::format("no result within {} s", settings_.trial_limit_seconds) +
                                          (stages.empty() ? "" : "; it took: " + stages) +
                                          (in_flight.empty() ? "" : "; in flight: " + in_flight));
  }
  if (const auto* much = std::get_if<worker_event::TooMuchMemory>(&event)) {
    worker->kill();
    return failed(Outcome::out_of_memory, too_much_memory(much->bytes, settings_.host_memory_limit_bytes));
  }
  if (const auto* ended = std::get_if<worker_event::Ended>(&event)) {
    const auto kills_after = memory_kills(settings_.memory_kill_counter);
    if (ended->killed && kills_before && kills_after && *kills_after > *kills_before)
      return failed(Outcome::out_of_memory, "the worker was killed by the kernel for lack of memory");
    return failed(Outcome::crashed, ended->how);
  }
  const FromWorker* said = std::get_if<FromWorker>(&event);
  const auto* unusable = said != nullptr ? std::get_if<message::Unusable>(said) : nullptr;
  if (unusable != nullptr && unusable->trial == number) {
    worker->end();
    if (unusable->out_of_memory) return failed(Outcome::out_of_memory, unusable->reason);
    return failed(Outcome::crashed, "gave up: " + unusable->reason);
  }
  worker->kill();
  const auto* garbage = std::get_if<worker_event::Garbage>(&event);
  return failed(
      Outcome::crashed,
      "broke the protocol: " + (garbage != nullptr ? garbage->what : "it answered what was not asked"));
}

bool TrialRunner::start_worker() {
  if (worker_ && worker_->has_ended()) worker_.reset();  // killed between two trials: not this trial's fault
  if (!worker_) take_seated_worker();
  std::string problem;
  for (int tried = 1; !worker_; ++tried) {
    if (interruption_.requested()) return false;
    worker_ =
        std::make_unique<WorkerProcess>(settings_.worker_command, interruption_, lines(), settings_.on_tick);
    worker_->limit_memory(settings_.host_memory_limit_bytes);
    problem = set_up_worker(false);
    if (problem.empty()) return worker_ != nullptr;
    worker_.reset();
    if (tried == tries) throw std::runtime_error("no worker can be started: it " + problem);
    if (settings_.on_message)
      settings_.on_message("the worker " + problem + " while starting; trying once more");
  }
  return true;
}

// One that cannot be set up again is no loss: a fresh one takes its place.
void TrialRunner::take_seated_worker() {
  if (!settings_.seat || !settings_.seat->worker) return;
  worker_ = std::move(settings_.seat->worker);
  if (worker_->has_ended()) return worker_.reset();
  worker_->report_to(lines(), settings_.on_tick);
  worker_->limit_memory(settings_.host_memory_limit_bytes);
  if (!set_up_worker(true).empty()) worker_.reset();
}

std::function<void(const std::string&)> TrialRunner::lines() {
  return [this](const std::string& line) {
    if (settings_.on_message) settings_.on_message("worker: " + line);
  };
}

std::string TrialRunner::set_up_worker(bool is_known) {
  const auto deadline = after(settings_.setup_limit_seconds);
  doing_.clear();
  say_progress(is_known ? "setting the worker up for something else" : "starting the worker");
  worker_->send(message::Setup{.tuner_pid = ::getpid(), .document = settings_.setup});
  bool greeted = is_known;
  while (true) {
    const WorkerEvent event = worker_->wait(deadline);
    if (std::holds_alternative<worker_event::Interrupted>(event)) {
      worker_->kill();
      worker_.reset();
      return "";
    }
    std::string problem = "sent an unexpected message";
    if (const auto* said = std::get_if<FromWorker>(&event)) {
      if (const auto* hello = std::get_if<message::Hello>(said); hello != nullptr && !greeted) {
        if (hello->protocol == worker_protocol_version) {
          greeted = true;
          continue;
        }
        problem = fmt::format("speaks protocol {} (build {}), not {}", hello->protocol,
                              printable(hello->build), worker_protocol_version);
      } else if (const auto* progress = std::get_if<message::Progress>(said);
                 progress != nullptr && greeted) {
        say_progress(progress->text);
        continue;
      } else if (std::holds_alternative<message::Ready>(*said) && greeted) {
        return "";
      } else if (const auto* failed = std::get_if<message::SetupFailed>(said)) {
        worker_->end();
        if (failed->bad_input) throw_as_input_error(failed->text);
        throw std::runtime_error("the worker cannot be set up: " + failed->text);
      }
    } else if (const auto* ended = std::get_if<worker_event::Ended>(&event)) {
      problem = ended->how;
    } else if (const auto* garbage = std::get_if<worker_event::Garbage>(&event)) {
      problem = "broke the protocol: " + garbage->what;
    } else if (std::holds_alternative<worker_event::TimedOut>(event)) {
      problem = fmt::format("was not ready within {} s", settings_.setup_limit_seconds);
      if (const std::string in_flight = worker_->ask_in_flight(); !in_flight.empty())
        problem += "; in flight: " + in_flight;
    } else if (const auto* much = std::get_if<worker_event::TooMuchMemory>(&event)) {
      problem = "was stopped: " + too_much_memory(much->bytes, settings_.host_memory_limit_bytes);
    }
    worker_->kill();
    return problem + circumstances(doing_, worker_->last_words());
  }
}

void TrialRunner::say_progress(const std::string& words) {
  doing_ = printable(words);
  stages_.begin(doing_, seconds_now());
  if (settings_.on_progress) settings_.on_progress(doing_);
}

}  // namespace moetune
