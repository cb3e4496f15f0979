// One trial, from configuration to Trial, in a worker process that may crash, hang or run out of memory
// without taking the search with it. The worker is kept for the next trial; a broken one is replaced. Start
// at TrialRunner::run().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/interruption.h"
#include "tuner/stage_times.h"
#include "tuner/target.h"
#include "tuner/trial.h"
#include "tuner/worker_process.h"

namespace moetune {

// Where a runner leaves a worker that is still well, and the next one finds it: it is set up anew, and a
// target may keep what both have in common, such as weights. Must not outlive the Interruption of the
// runners.
struct WorkerSeat {
  std::unique_ptr<WorkerProcess> worker;
};

struct TrialRunnerSettings {
  // What to exec. /proc/self/exe is the running program even when its file was replaced meanwhile.
  std::vector<std::string> worker_command{"/proc/self/exe", "worker"};
  nlohmann::json setup;                // handed to the worker's TargetFactory
  double trial_limit_seconds = 300.0;  // then the worker is killed and the trial timed_out
  double setup_limit_seconds = 900.0;  // for the worker to become ready: weights, reference logits
  std::function<void(const std::string& words)> on_progress;  // what the worker does now; may be empty
  std::function<void(const std::string& line)> on_message;  // lines the worker printed, retries; may be empty
  std::function<void()> on_tick;     // several times a second while waiting; may be empty
  std::shared_ptr<WorkerSeat> seat;  // empty: the worker ends with its runner
  std::int64_t host_memory_limit_bytes =
      0;  // of a worker; above it, it is killed and the trial out_of_memory; 0: none
  // What the calendar says; empty: the system's. Times are taken with another clock, which nobody can set.
  std::function<std::chrono::system_clock::time_point()> calendar;
  std::string memory_kill_counter;  // file, see memory_kills.h; empty: this process's own
};

class TrialRunner {
 public:
  TrialRunner(TrialRunnerSettings settings, const Interruption& interruption);
  ~TrialRunner();  // ends the worker, or leaves it in the seat
  TrialRunner(const TrialRunner&) = delete;
  TrialRunner& operator=(const TrialRunner&) = delete;

  // Measures one configuration. A worker that dies is replaced and the trial tried once more, then it is
  // `crashed`. Empty when interrupted: the worker is gone then. Throws InputError when the worker refuses its
  // setup, and std::runtime_error when no worker can be started at all.
  std::optional<Trial> run(std::int64_t number, const Configuration& configuration, std::uint64_t seed);

 private:
  // How one attempt went: a trial's outcome, or an end that is worth another try.
  struct Attempt {
    TargetResult result;
    bool interrupted = false;
    bool worth_retrying = false;
  };
  Attempt attempt(std::int64_t number, const Configuration& configuration, std::uint64_t seed);
  // What it means that the worker did not answer. It is gone afterwards; the next attempt gets a fresh one.
  Attempt without_answer(const WorkerEvent& event, std::int64_t number,
                         std::optional<std::uint64_t> kills_before);
  bool start_worker();  // false: interrupted
  void take_seated_worker();
  // Empty: it is ready. Otherwise what went wrong. is_known: it has said who it is, to an earlier runner.
  std::string set_up_worker(bool is_known);
  std::function<void(const std::string&)> lines();  // for what the worker prints
  void say_progress(const std::string& words);
  // By how much the calendar went otherwise than the clock while a trial ran, and says so; empty: no more
  // than usual.
  std::optional<double> clock_jump(std::int64_t number, std::chrono::system_clock::time_point calendar_begin,
                                   double seconds);

  TrialRunnerSettings settings_;
  const Interruption& interruption_;
  std::unique_ptr<WorkerProcess> worker_;  // empty: the next trial starts one
  std::string doing_;                      // the last progress words
  StageTimes stages_;                      // of the trial
};

}  // namespace moetune
