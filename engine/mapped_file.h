// A file opened for reading: mapped for use in place, and read() for whoever must survive the file shrinking
// meanwhile (touching a mapped page that is no longer backed by the file kills the process with SIGBUS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace moetune {

class MappedFile {
 public:
  // Throws InputError when the path is not a readable regular file, std::runtime_error when mapping fails.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  // The whole file; null when it is empty.
  const std::byte* data() const { return data_; }

  // Copies bytes [offset, offset + into.size()) of the file. Throws InputError when the file has become too
  // short.
  void read(std::int64_t offset, std::span<std::byte> into) const;

  // Reads [offset, offset + bytes) in pieces of kPieceBytes, the last one shorter: use(piece, bytes read
  // before it).
  static constexpr std::int64_t kPieceBytes = 1 << 20;
  void read_in_pieces(std::int64_t offset, std::int64_t bytes,
                      const std::function<void(std::span<const std::byte>, std::int64_t)>& use) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
  const std::byte* data_ = nullptr;
};

// A small text file, whole. Throws InputError when it cannot be read or is longer than largest_bytes.
std::string read_text_file(const std::string& path, std::int64_t largest_bytes);

}  // namespace moetune
