// Reading and writing whole ranges of files, with errors that name the file. Start at FileSet: open files by
// path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace moetune {

// Files opened once for reading, on first use. Reading through descriptors instead of a mapping leaves no
// page of a file counted as ours, and a file that shrinks meanwhile is an error with a name instead of a
// SIGBUS.
class FileSet {
 public:
  FileSet() = default;
  ~FileSet();
  FileSet(const FileSet&) = delete;
  FileSet& operator=(const FileSet&) = delete;

  // Reads bytes [offset, offset + bytes) of a file. Thread-safe. Throws std::runtime_error.
  void read(const std::string& path, std::int64_t offset, std::byte* destination, std::int64_t bytes);

 private:
  std::mutex mutex_;
  std::map<std::string, int> descriptors_;  // guarded by mutex_
};

// Read-only descriptor, closed on exec. Throws std::runtime_error.
int open_for_reading(const std::string& path);

// All of the bytes or an exception: std::runtime_error naming the file, also where it ends too early.
void read_range(int descriptor, const std::string& path, std::int64_t offset, std::byte* destination,
                std::int64_t bytes);
void write_range(int descriptor, const std::string& path, std::int64_t offset, const std::byte* source,
                 std::int64_t bytes);

// "path: what went wrong: reason of errno".
[[noreturn]] void throw_file_error(const std::string& path, const std::string& what);

}  // namespace moetune
