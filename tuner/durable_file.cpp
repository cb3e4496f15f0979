#include "tuner/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace moetune {

std::string error_text(int error_number) { return std::generic_category().message(error_number); }

Descriptor open_file(const std::string& file, int flags) {
  int number = -1;
  do number = ::open(file.c_str(), flags | O_CLOEXEC, 0644);
  while (number < 0 && errno == EINTR);
  return Descriptor(number);
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void sync_folder_of(const std::string& file) {
  std::string folder = std::filesystem::path(file).parent_path().string();
  if (folder.empty()) folder = ".";
  const Descriptor descriptor = open_file(folder, O_RDONLY | O_DIRECTORY);
  // EINVAL: a file system without such a thing has nothing to wait for.
  if (!descriptor.is_open() || (::fsync(descriptor.number()) != 0 && errno != EINVAL))
    throw std::runtime_error(folder + ": cannot be brought to the disk: " + error_text(errno));
}

void write_file_atomically(const std::string& file, std::string_view contents) {
  const std::string beside = file + ".new";
  Descriptor descriptor = open_file(beside, O_WRONLY | O_CREAT | O_TRUNC);
  const bool written = descriptor.is_open() && write_all(descriptor.number(), contents) &&
                       ::fsync(descriptor.number()) == 0 && ::rename(beside.c_str(), file.c_str()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(beside.c_str());
    throw std::runtime_error(file + ": cannot be written: " + error_text(error));
  }
  sync_folder_of(file);
}

}  // namespace moetune
