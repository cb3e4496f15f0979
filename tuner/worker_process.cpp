#include "tuner/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/durable_file.h"
#include "tuner/named_numbers.h"
#include "tuner/printable.h"
#include "tuner/spawn.h"

namespace moetune {
namespace {
using namespace std::chrono_literals;

constexpr auto tick = 100ms;
constexpr auto patience = 5s;              // for a worker that was told to end
constexpr std::size_t kept_lines = 4;      // of what it printed
constexpr std::size_t kept_columns = 300;  // of each of them
constexpr std::size_t longest_printed_line = 4096;

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("no pipe for the worker: " + error_text(errno));
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  // Above the numbers that the child's ends are copied to, or one copy could close another's source.
  for (Descriptor* end : {&pipe.read, &pipe.write}) {
    const int moved = ::fcntl(end->number(), F_DUPFD_CLOEXEC, 10);
    if (moved < 0) throw std::runtime_error("no descriptor for the worker: " + error_text(errno));
    *end = Descriptor(moved);
  }
  return pipe;
}

void never_block(const Descriptor& descriptor) { ::fcntl(descriptor.number(), F_SETFL, O_NONBLOCK); }

pid_t start(const std::vector<std::string>& command, int input, int output, int printed) {
  constexpr std::array signals = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, worker_where_signal};
  return spawn({.command = command,
                .descriptors = {{printed, STDOUT_FILENO},
                                {printed, STDERR_FILENO},
                                {input, worker_input_descriptor},
                                {output, worker_output_descriptor}},
                .role = "the worker ",
                .own_group = true,
                .default_signals = signals});
}

// Appends what can be read now. False at the end of the stream.
bool append_available(const Descriptor& from, std::string& to, std::size_t at_most) {
  std::array<char, std::size_t{1} << 16> block{};
  while (to.size() < at_most) {
    const ssize_t count = ::read(from.number(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    to.append(block.data(), static_cast<std::size_t>(count));
  }
  return true;
}

int milliseconds_until(WorkerProcess::Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - WorkerProcess::Clock::now());
  return static_cast<int>(std::clamp(left, 0ms, std::chrono::milliseconds(tick)).count());
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& command, const Interruption& interruption,
                             std::function<void(const std::string&)> on_line, std::function<void()> on_tick)
    : interruption_(interruption), on_line_(std::move(on_line)), on_tick_(std::move(on_tick)) {
  Pipe input = make_pipe();
  Pipe output = make_pipe();
  Pipe printed = make_pipe();
  pid_ = start(command, input.read.number(), output.write.number(), printed.write.number());
  exit_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  input_ = std::move(input.write);
  output_ = std::move(output.read);
  printed_ = std::move(printed.read);
  for (const Descriptor* descriptor : {&input_, &output_, &printed_}) never_block(*descriptor);
}

WorkerProcess::~WorkerProcess() { end(); }

void WorkerProcess::report_to(std::function<void(const std::string&)> on_line,
                              std::function<void()> on_tick) {
  on_line_ = std::move(on_line);
  on_tick_ = std::move(on_tick);
}

void WorkerProcess::send(const ToWorker& message) { pending_ += to_line(message); }

WorkerEvent WorkerProcess::wait(Clock::time_point deadline) {
  bool is_late = false;
  while (true) {
    if (interruption_.requested()) return worker_event::Interrupted{};
    if (const auto line = take_line()) {
      try {
        return from_worker_from_line(*line);
      } catch (const InputError& error) {
        return worker_event::Garbage{error.what()};
      }
    }
    if (received_.size() - taken_ >= longest_message_bytes)
      return worker_event::Garbage{"a line longer than any message"};
    if (!output_.is_open()) {  // it closed its side, so it is ending or it is broken
      if (!await_exit(patience)) kill();
      read_printed();
      take_printed_lines(true);
      return worker_event::Ended{.killed = WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGKILL,
                                 .how = how_it_ended(*status_)};
    }
    // Only after everything there was to read: a tuner that was suspended must not blame the worker.
    if (is_late) return worker_event::TimedOut{};
    if (most_memory_ > 0)
      if (const std::int64_t bytes = held_memory(); bytes > most_memory_)
        return worker_event::TooMuchMemory{bytes};

    std::array<pollfd, 5> waits{{{output_.number(), POLLIN, 0},
                                 {printed_.number(), POLLIN, 0},
                                 {exit_.number(), POLLIN, 0},
                                 {interruption_.descriptor(), POLLIN, 0},
                                 {pending_.empty() ? -1 : input_.number(), POLLOUT, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), milliseconds_until(deadline));
    if (ready < 0 && errno != EINTR) throw std::runtime_error("waiting for the worker: " + error_text(errno));
    read_printed();
    read_output();
    // Somebody else may hold the pipe open after the worker's end: nothing will come any more.
    if (waits[2].revents != 0 && received_.find('\n', taken_) == std::string::npos) output_.close();
    if (!pending_.empty()) write_pending();
    if (on_tick_) on_tick_();
    is_late = Clock::now() >= deadline;
  }
}

std::string WorkerProcess::ask_in_flight() {
  if (status_) return {};
  in_flight_.reset();
  ::kill(pid_, worker_where_signal);
  const auto deadline = Clock::now() + patience;
  while (!in_flight_ && printed_.is_open() && Clock::now() < deadline) {
    std::array<pollfd, 2> waits{{{printed_.number(), POLLIN, 0}, {exit_.number(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), milliseconds_until(deadline));
    read_printed();
    if (waits[1].revents != 0) break;
  }
  return in_flight_.value_or("");
}

std::int64_t WorkerProcess::held_memory() const {
  auto kibibytes = named_numbers_in(fmt::format("/proc/{}/status", pid_));
  return static_cast<std::int64_t>(kibibytes["RssAnon"] + kibibytes["RssShmem"]) * 1024;
}

bool WorkerProcess::has_ended() { return await_exit(0ms); }

void WorkerProcess::end() {
  input_.close();
  pending_.clear();
  if (!await_exit(patience)) kill();
}

void WorkerProcess::kill() {
  input_.close();
  pending_.clear();
  if (status_) return;
  // The whole group, before its leader is reaped: afterwards the number may belong to others.
  ::kill(-pid_, SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
}

bool WorkerProcess::await_exit(std::chrono::milliseconds at_most) {
  const auto deadline = Clock::now() + at_most;
  while (!status_) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid_) {
      kill();  // reaps it, and ends what it may have left behind
      break;
    }
    if (Clock::now() >= deadline) return false;
    // Without a pidfd this is a look every few milliseconds; a full pipe must not keep it from ending.
    std::array<pollfd, 2> waits{{{exit_.number(), POLLIN, 0}, {printed_.number(), POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), exit_.is_open() ? milliseconds_until(deadline) : 5);
    read_printed();
  }
  return true;
}

void WorkerProcess::read_output() {
  if (!output_.is_open()) return;
  if (taken_ > 0) {
    received_.erase(0, taken_);
    taken_ = 0;
  }
  if (!append_available(output_, received_, longest_message_bytes)) output_.close();
}

void WorkerProcess::read_printed() {
  if (!printed_.is_open()) return;
  if (!append_available(printed_, printed_text_, std::size_t{1} << 20)) printed_.close();
  take_printed_lines(!printed_.is_open());
}

void WorkerProcess::take_printed_lines(bool all) {
  std::size_t start = 0;
  while (start < printed_text_.size()) {
    std::size_t line_end = printed_text_.find('\n', start);
    const bool ended = line_end != std::string::npos;
    if (!ended) line_end = printed_text_.size();
    if (!ended && !all && line_end - start < longest_printed_line) break;
    const std::string line = printable(
        std::string_view(printed_text_).substr(start, std::min(line_end - start, longest_printed_line)));
    start = std::min(line_end + (ended ? 1 : 0), printed_text_.size());
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    if (line.starts_with(worker_where_prefix)) {
      in_flight_ = line.substr(worker_where_prefix.size());
      continue;
    }
    if (on_line_) on_line_(line);
    last_lines_.push_back(fitted(line, kept_columns));
    if (last_lines_.size() > kept_lines) last_lines_.pop_front();
  }
  printed_text_.erase(0, start);
}

void WorkerProcess::write_pending() {
  const ssize_t written = ::write(input_.number(), pending_.data(), pending_.size());
  if (written > 0) pending_.erase(0, static_cast<std::size_t>(written));
  if (written < 0 && errno != EAGAIN && errno != EINTR)
    pending_.clear();  // it has gone: the next wait says how
}

std::optional<std::string_view> WorkerProcess::take_line() {
  const std::size_t line_end = received_.find('\n', taken_);
  if (line_end == std::string::npos) return std::nullopt;
  const std::string_view line = std::string_view(received_).substr(taken_, line_end - taken_);
  taken_ = line_end + 1;
  return line;
}

std::string WorkerProcess::last_words() const { return fmt::format("{}", fmt::join(last_lines_, " / ")); }

}  // namespace moetune
