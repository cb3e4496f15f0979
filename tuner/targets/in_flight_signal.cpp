#include "tuner/targets/in_flight_signal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "kernels/op_in_flight.h"
#include "tuner/worker_protocol.h"

namespace moetune {
namespace {

// Only what a signal handler may do: no allocation, no lock, one write().
void print_where(int) {
  const int error = errno;
  std::array<char, 1024> line{};
  std::size_t length = 0;
  const auto add = [&](std::string_view text) {
    const std::size_t count = std::min(text.size(), line.size() - 1 - length);
    std::memcpy(line.data() + length, text.data(), count);
    length += count;
  };
  std::array<const char*, 16> names{};
  const std::size_t count = ops_in_flight(names);
  add(worker_where_prefix);
  if (count == 0) add("no op");
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) add(", ");
    add(names[i]);
  }
  line[length++] = '\n';
  // Nothing better can be done where the tuner has gone.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), length);
  errno = error;
}

}  // namespace

void answer_where_signal() {
  struct sigaction action = {};
  action.sa_handler = print_where;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(worker_where_signal, &action, nullptr);
}

}  // namespace moetune
