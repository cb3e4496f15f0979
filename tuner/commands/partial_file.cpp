#include "tuner/commands/partial_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "engine/facts/error.h"

namespace moetune {

PartialFile::PartialFile(const std::string& flag, std::string path)
    : path_(std::move(path)), partial_path_(path_ + ".partial") {
  if (path_.empty()) throw InputError(flag, "''", "a file to write");
  if (std::filesystem::is_directory(path_))
    throw InputError(flag, "'" + path_ + "' is a directory", "a file to write");
  // finish() puts a new file in its place: a device node or pipe would be gone.
  if (std::filesystem::exists(path_) && !std::filesystem::is_regular_file(path_))
    throw InputError(flag, "'" + path_ + "' is no regular file", "a file to write");
  file_.open(partial_path_, std::ios::binary | std::ios::trunc);
  if (!file_)
    throw InputError(flag, "cannot write '" + partial_path_ + "': " + std::strerror(errno),
                     "a file in a writable directory");
}

PartialFile::~PartialFile() {
  if (finished_) return;
  file_.close();
  std::error_code ignored;  // nothing better can be done about a file that cannot be removed
  std::filesystem::remove(partial_path_, ignored);
}

void PartialFile::write(const void* data, std::size_t bytes) {
  file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

void PartialFile::finish(const std::string& contents) {
  write(contents.data(), contents.size());
  finish();
}

void PartialFile::finish() {
  file_.close();
  if (!file_) throw std::runtime_error("cannot write " + partial_path_ + ": " + std::strerror(errno));
  std::filesystem::rename(partial_path_, path_);
  finished_ = true;
}

}  // namespace moetune
