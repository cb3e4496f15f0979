// The tuner's side of one worker: start it, talk to it, notice how it ends. The worker is exec'd in a process
// group of its own, so that Ctrl-C reaches only the tuner and a kill reaches everything the worker started.
// Start at WorkerProcess::wait().
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tuner/descriptor.h"
#include "tuner/interruption.h"
#include "tuner/worker_protocol.h"

namespace moetune {

// How a wait ended other than with a message.
namespace worker_event {
struct Garbage {
  std::string what;  // why it is not a message
};
struct Ended {
  bool killed = false;  // by SIGKILL
  std::string how;      // "was killed by SIGSEGV", "ended with exit status 3"
};
struct TimedOut {};
struct Interrupted {};
struct TooMuchMemory {
  std::int64_t bytes = 0;  // that it held when it was looked at; it has not been killed yet
};
}  // namespace worker_event

using WorkerEvent =
    std::variant<FromWorker, worker_event::Garbage, worker_event::Ended, worker_event::TimedOut,
                 worker_event::Interrupted, worker_event::TooMuchMemory>;

class WorkerProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // Throws std::runtime_error when the program cannot be started. on_line gets every line the worker prints,
  // on_tick is called several times a second while waiting; both may be empty.
  WorkerProcess(const std::vector<std::string>& command, const Interruption& interruption,
                std::function<void(const std::string&)> on_line, std::function<void()> on_tick);
  ~WorkerProcess();  // as end()
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Queues a message; wait() sends it, as the worker may be too busy to read now.
  void send(const ToWorker& message);

  // The next message, or why there will be none. What the worker said before it ended, or before the
  // deadline, comes first.
  WorkerEvent wait(Clock::time_point deadline);

  // A wait ends with TooMuchMemory once the worker itself holds more host memory than that: pages of its own,
  // not those of mapped files, which the kernel can take back. Not RLIMIT_AS: CUDA reserves address space by
  // the terabyte. 0: no limit.
  void limit_memory(std::int64_t bytes) { most_memory_ = bytes; }

  // What its threads are at, "Gemm, Route" (kernels/op_in_flight.h): for a worker that does not answer any
  // more. It is interrupted by a signal, and ends where it does not know that one. Empty: it does not say.
  std::string ask_in_flight();

  // Who is told from now on: the worker may go from one runner to the next.
  void report_to(std::function<void(const std::string&)> on_line, std::function<void()> on_tick);

  // Ended without having been told to? Between two trials somebody may have killed it.
  bool has_ended();

  // Lets it end by itself (scratch files go), and kills it when it does not within a few seconds.
  void end();
  // Kills it and everything it started, now.
  void kill();

  // The last lines it printed, for the reason of a crash; empty: it printed nothing.
  std::string last_words() const;

 private:
  void read_output();
  void read_printed();
  void write_pending();
  bool await_exit(std::chrono::milliseconds at_most);  // true: reaped
  std::optional<std::string_view> take_line();
  void take_printed_lines(bool all);
  std::int64_t held_memory() const;

  const Interruption& interruption_;
  std::function<void(const std::string&)> on_line_;
  std::function<void()> on_tick_;
  pid_t pid_ = -1;
  Descriptor exit_;     // readable once the process has ended (pidfd); not open on kernels before 5.3
  Descriptor input_;    // the worker reads from it
  Descriptor output_;   // its messages
  Descriptor printed_;  // its stdout and stderr
  std::string pending_;
  std::string received_;
  std::size_t taken_ = 0;  // bytes of received_ that were handed out
  std::string printed_text_;
  std::deque<std::string> last_lines_;
  std::optional<std::string> in_flight_;  // what it answered to the signal
  std::int64_t most_memory_ = 0;          // bytes; 0: no limit
  std::optional<int> status_;             // of waitpid(), once reaped
};

}  // namespace moetune
