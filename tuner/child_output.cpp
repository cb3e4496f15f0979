#include "tuner/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
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
#include "tuner/spawn.h"

namespace moetune {
namespace {
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = std::size_t{1} << 20;

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
  const pid_t pid = spawn({.command = command, .descriptors = {{output.number(), STDOUT_FILENO}}});
  output.close();  // or the stream would not end with the child
  ChildOutput result;
  result.problem = read_all(input, result.text, at_most);
  if (!result.problem.empty()) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (result.problem.empty() && !succeeded) result.problem = how_it_ended(status);
  return result;
}

}  // namespace moetune
