#include "tuner/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fmt/format.h>

#include "tuner/descriptor.h"
#include "tuner/durable_file.h"

namespace moetune {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = std::size_t{1} << 20;

pid_t spawn(const std::vector<std::string>& command, int output) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, arguments.front(), &files, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw std::runtime_error(fmt::format("{} cannot be started: {}", command.front(), error_text(error)));
  return pid;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    return name != nullptr ? fmt::format("was killed by SIG{}", name)
                           : fmt::format("was killed by signal {}", WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with exit status {}", WEXITSTATUS(status));
}

// Until the end of the stream. Empty: there; otherwise why it was not waited for.
std::string read_all(const Descriptor& from, std::string& text, std::chrono::seconds at_most) {
  const Clock::time_point deadline = Clock::now() + at_most;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{from.number(), POLLIN, 0};
    const int ready =
        ::poll(&wait, 1, static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count()));
    if (ready == 0) return fmt::format("gave no answer within {} s", at_most.count());
    if (ready < 0 && errno != EINTR) return "cannot be waited for: " + error_text(errno);
    if (ready < 0) continue;
    std::array<char, 4096> block{};
    const ssize_t count = ::read(from.number(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "cannot be listened to: " + error_text(errno);
    if (count == 0) return "";
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() > most_bytes) return "printed more than a megabyte";
  }
}

}  // namespace

ChildOutput output_of(const std::vector<std::string>& command, std::chrono::seconds at_most) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe: " + error_text(errno));
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  const pid_t pid = spawn(command, output.number());
  output.close();  // or the stream would not end with the child
  ChildOutput result;
  result.problem = read_all(input, result.text, at_most);
  if (!result.problem.empty()) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (result.problem.empty()) result.problem = how_it_ended(status);
  return result;
}

}  // namespace moetune
