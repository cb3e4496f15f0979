#include "tuner/interruption.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>

#include "tuner/durable_file.h"

namespace moetune {
namespace {

constexpr std::array caught{SIGINT, SIGTERM, SIGHUP};
constexpr std::size_t hangup_slot = 2;
static_assert(caught[hangup_slot] == SIGHUP);
constexpr std::array ignored{SIGPIPE, SIGXFSZ};

// What the signal handler may touch: lock-free atomics only.
std::atomic<bool> is_requested = false;
std::atomic<int> wake_descriptor = -1;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

bool is_alive = false;
std::array<struct sigaction, caught.size() + ignored.size()> previous;

extern "C" void on_signal(int) {
  const int error = errno;  // a handler must not change what the interrupted call reports
  is_requested = true;
  const char byte = 1;
  // A full pipe is as good as a written one: it is readable.
  [[maybe_unused]] const ssize_t written = ::write(wake_descriptor, &byte, 1);
  errno = error;
}

}  // namespace

Interruption::Interruption() {
  if (is_alive) throw std::logic_error("a second Interruption at the same time");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::runtime_error("no pipe for signals: " + error_text(errno));
  readable_ = Descriptor(ends[0]);
  writable_ = Descriptor(ends[1]);
  is_requested = false;
  wake_descriptor = writable_.number();
  is_alive = true;

  struct sigaction action{};
  std::size_t slot = 0;
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // poll() ends all the same; nothing else has to know about signals
  for (const int signal : caught) ::sigaction(signal, &action, &previous[slot++]);
  if (previous[hangup_slot].sa_handler == SIG_IGN)
    ::sigaction(SIGHUP, &previous[hangup_slot], nullptr);  // nohup
  action.sa_handler = SIG_IGN;
  for (const int signal : ignored) ::sigaction(signal, &action, &previous[slot++]);
}

Interruption::~Interruption() {
  std::size_t slot = 0;
  for (const int signal : caught) ::sigaction(signal, &previous[slot++], nullptr);
  for (const int signal : ignored) ::sigaction(signal, &previous[slot++], nullptr);
  wake_descriptor = -1;
  is_alive = false;
}

bool Interruption::requested() const { return is_requested; }

}  // namespace moetune
