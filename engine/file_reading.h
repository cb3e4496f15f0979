// Reading and writing whole ranges of files, with errors that name the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace moetune {

// Read-only descriptor, closed on exec. Throws std::runtime_error.
int open_for_reading(const std::string& path);

// All of the bytes or an exception: std::runtime_error naming the file, also where it ends too early.
void read_range(int descriptor, const std::string& path, std::int64_t offset, std::byte* destination, std::int64_t bytes);
void write_range(int descriptor, const std::string& path, std::int64_t offset, const std::byte* source, std::int64_t bytes);

// "path: what went wrong: reason of errno".
[[noreturn]] void throw_file_error(const std::string& path, const std::string& what);

}  // namespace moetune
