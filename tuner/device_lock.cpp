#include "tuner/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tuner/durable_file.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr std::chrono::milliseconds look_again(200);

std::string file_of(const std::string& name, const std::string& folder) {
  std::string plain = name;
  for (char& letter : plain)
    if (letter == '/') letter = '_';
  return folder + "/moetune-gpu-" + plain + ".lock";
}

}  // namespace

std::optional<DeviceLock> DeviceLock::try_take(const std::string& name, const std::string& holder,
                                               const std::string& folder) {
  const std::string file = file_of(name, folder);
  // No link is followed: the folder is everybody's.
  Descriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  const bool may_write = descriptor.is_open();
  // Another user's file: reading is enough for a lock.
  if (!may_write) descriptor = Descriptor(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptor.is_open()) throw std::runtime_error(file + ": no lock can be made: " + error_text(errno));
  if (::flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw std::runtime_error(file + ": cannot be locked: " + error_text(errno));
    return std::nullopt;
  }
  if (may_write) {
    ::fchmod(descriptor.number(), 0666);  // past the umask: the next user may write its own name
    // Only for the message of others: the lock itself is the kernel's.
    const std::string text = fmt::format("{}, process {}\n", holder, ::getpid());
    if (::ftruncate(descriptor.number(), 0) == 0 &&
        ::pwrite(descriptor.number(), text.data(), text.size(), 0) < 0)
      throw std::runtime_error(file + ": cannot be written: " + error_text(errno));
  }
  return DeviceLock(std::move(descriptor));
}

std::string DeviceLock::holder_of(const std::string& name, const std::string& folder) {
  const Descriptor descriptor(::open(file_of(name, folder).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::array<char, 200> text{};
  const ssize_t count = descriptor.is_open() ? ::read(descriptor.number(), text.data(), text.size()) : 0;
  if (count <= 0) return {};
  std::string line(text.data(), static_cast<std::size_t>(count));
  return printable(line.substr(0, line.find('\n')));
}

std::optional<DeviceLock> wait_for_device(const std::string& name, const std::string& holder,
                                          const std::function<void(const std::string& other)>& on_wait,
                                          const std::function<bool()>& is_done, const std::string& folder) {
  bool said = false;
  while (true) {
    if (auto lock = DeviceLock::try_take(name, holder, folder)) return lock;
    if (!std::exchange(said, true)) {
      const std::string other = DeviceLock::holder_of(name, folder);
      on_wait(other.empty() ? "another process" : other);
    }
    if (is_done()) return std::nullopt;
    std::this_thread::sleep_for(look_again);
  }
}

}  // namespace moetune
