#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"

namespace moetune {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(),
                       O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // not blocking: a FIFO would wait for a writer
  if (descriptor_ < 0) throw InputError(path, std::strerror(errno), "a readable file");
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw InputError(path, "not a regular file", "a readable file");
  }
  bytes_ = status.st_size;
  if (bytes_ == 0) return;
  void* const mapping =
      ::mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapping == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor_);
    throw std::runtime_error(fmt::format("{}: cannot map {} bytes: {}", path, bytes_, std::strerror(reason)));
  }
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(bytes_));
  ::close(descriptor_);
}

void MappedFile::read(std::int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw std::runtime_error(
          fmt::format("{}: cannot read at byte {}: {}", path_, offset, std::strerror(errno)));
    if (got == 0) {
      throw InputError(path_, fmt::format("ends at byte {}, had {} bytes when it was opened", offset, bytes_),
                       "a file that nobody writes to meanwhile");
    }
    offset += got;
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void MappedFile::read_in_pieces(
    std::int64_t offset, std::int64_t bytes,
    const std::function<void(std::span<const std::byte>, std::int64_t)>& use) const {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kPieceBytes)));
  for (std::int64_t done = 0; done < bytes; done += kPieceBytes) {
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(std::min(kPieceBytes, bytes - done)));
    read(offset + done, piece);
    use(piece, done);
  }
}

std::string read_text_file(const std::string& path, std::int64_t largest_bytes) {
  const MappedFile file(path);
  if (file.bytes() > largest_bytes) {
    throw InputError(path, fmt::format("{} bytes long", file.bytes()),
                     fmt::format("at most {}", largest_bytes));
  }
  std::string text(static_cast<std::size_t>(file.bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace moetune
