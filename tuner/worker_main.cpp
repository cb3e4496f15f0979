#include "tuner/worker_main.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <stdexcept>
#include <variant>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "moetune/build_info.h"
#include "tuner/durable_file.h"
#include "tuner/worker_protocol.h"

namespace moetune {
namespace {

constexpr int done = 0;
constexpr int unusable = 1;

class Channel {
 public:
  // A tuner that is gone is no reason for a message to anybody: the worker just ends.
  void say(const FromWorker& message) { say_line(to_line(message)); }
  void say_line(const std::string& line) {
    if (!write_all(worker_output_descriptor, line)) std::_Exit(unusable);
  }

  // Empty at the end of the input.
  std::optional<ToWorker> listen() {
    while (true) {
      if (const auto line_end = received_.find('\n'); line_end != std::string::npos) {
        const std::string line = received_.substr(0, line_end);
        received_.erase(0, line_end + 1);
        return to_worker_from_line(line);
      }
      std::array<char, 4096> block{};
      const ssize_t count = ::read(worker_input_descriptor, block.data(), block.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      received_.append(block.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  std::string received_;
};

bool are_pipes_there() {
  return ::fcntl(worker_input_descriptor, F_GETFD) >= 0 && ::fcntl(worker_output_descriptor, F_GETFD) >= 0;
}

void prepare_process() {
  std::fflush(stdout);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  for (const int descriptor : {worker_input_descriptor, worker_output_descriptor})
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME,
          "moetune worker");  // whoever it disturbs should read that, not "exe" from /proc/self/exe
  // When memory runs out the kernel shall take this process, not the tuner that keeps the log.
  // Where that cannot be said it is the kernel's choice, as for every other program.
  const Descriptor score = open_file("/proc/self/oom_score_adj", O_WRONLY);
  if (score.is_open()) write_all(score.number(), "500");
}

std::unique_ptr<Target> set_up(Channel& tuner, const TargetFactory& make_target,
                               const nlohmann::json& document) {
  try {
    auto target =
        make_target(document, [&](const std::string& words) { tuner.say(message::Progress{words}); });
    tuner.say(message::Ready{});
    return target;
  } catch (const InputError& error) {
    tuner.say(message::SetupFailed{.bad_input = true, .text = error.what()});
  } catch (const std::bad_alloc&) {
    tuner.say(message::SetupFailed{.bad_input = false,
                                   .text = "not enough memory for the model and its reference"});
  } catch (const std::exception& error) {
    tuner.say(message::SetupFailed{.bad_input = false, .text = error.what()});
  }
  return nullptr;
}

// False: there is nothing to keep. What is wrong with a setup is said by the new target.
bool take_over(Channel& tuner, Target* target, const nlohmann::json& document) {
  try {
    if (target == nullptr || !target->take_over(document)) return false;
  } catch (const std::exception&) {
    return false;
  }
  tuner.say(message::Ready{});
  return true;
}

// False: the target threw, this process must not measure any more.
bool measure(Channel& tuner, Target& target, const message::Measure& request) {
  const auto give_up = [&](bool out_of_memory, const std::string& reason) {
    tuner.say(message::Unusable{.trial = request.trial, .out_of_memory = out_of_memory, .reason = reason});
    return false;
  };
  try {
    message::Result answer{.trial = request.trial, .result = {}};
    answer.result = target.measure(request.configuration, request.seed,
                                   [&](const std::string& words) { tuner.say(message::Progress{words}); });
    std::string line;
    try {
      line = to_line(FromWorker(answer));
    } catch (const std::domain_error& error) {  // a metric that is not finite
      answer.result = {.outcome = Outcome::wrong_output, .reason = error.what(), .metrics = {}};
      line = to_line(FromWorker(answer));
    }
    tuner.say_line(line);
    return true;
  } catch (const std::bad_alloc&) {
    return give_up(true, "an allocation failed (std::bad_alloc)");
  } catch (const std::exception& error) {
    return give_up(false, error.what());
  }
}

}  // namespace

int serve_worker(const TargetFactory& make_target) {
  if (!are_pipes_there())
    throw InputError("moetune worker", "was started by hand",
                     "moetune tune, which starts its workers itself");
  prepare_process();
  Channel tuner;
  tuner.say(message::Hello{.protocol = worker_protocol_version,
                           .build = fmt::format("{} {}", build_info::version, build_info::commit)});

  std::unique_ptr<Target> target;
  while (const auto request = tuner.listen()) {
    if (const auto* setup = std::get_if<message::Setup>(&*request)) {
      // The tuner may have died before the kernel was asked to watch it.
      if (setup->tuner_pid != ::getppid()) return unusable;
      if (take_over(tuner, target.get(), setup->document)) continue;
      target.reset();  // its memory before the next one's
      target = set_up(tuner, make_target, setup->document);
      if (!target) return unusable;
    } else if (!target || !measure(tuner, *target, std::get<message::Measure>(*request))) {
      return unusable;
    }
  }
  return done;
}

}  // namespace moetune
