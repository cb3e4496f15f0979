#include "engine/file_reading.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace moetune {

void throw_file_error(const std::string& path, const std::string& what) {
  throw std::runtime_error(path + ": " + what + ": " + std::generic_category().message(errno));
}

FileSet::~FileSet() {
  for (const auto& [path, descriptor] : descriptors_) ::close(descriptor);
}

void FileSet::read(const std::string& path, std::int64_t offset, std::byte* destination, std::int64_t bytes) {
  int descriptor = -1;
  {
    const std::lock_guard lock(mutex_);
    const auto file = descriptors_.try_emplace(path, -1).first;
    if (file->second < 0) file->second = open_for_reading(path);
    descriptor = file->second;
  }
  read_range(descriptor, path, offset, destination, bytes);
}

int open_for_reading(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_file_error(path, "cannot be opened");
  return descriptor;
}

void read_range(int descriptor, const std::string& path, std::int64_t offset, std::byte* destination,
                std::int64_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::pread(descriptor, destination, static_cast<std::size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error(path, "cannot be read");
    if (count == 0)
      throw std::runtime_error(path + ": ends " + std::to_string(bytes) +
                               " bytes too early; was it changed while in use?");
    destination += count;
    offset += count;
    bytes -= count;
  }
}

void write_range(int descriptor, const std::string& path, std::int64_t offset, const std::byte* source,
                 std::int64_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::pwrite(descriptor, source, static_cast<std::size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error(path, "cannot be written");
    source += count;
    offset += count;
    bytes -= count;
  }
}

}  // namespace moetune
