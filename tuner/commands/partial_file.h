// An output file that appears under its name only when it is complete: a stopped run leaves no half file that
// looks whole. Opened before the work begins, because a wrong path must not cost the time of the work.
#pragma once

#include <fstream>
#include <string>

namespace moetune {

class PartialFile {
 public:
  // flag: the option that named the file, for messages. Throws InputError when the file cannot be made there.
  PartialFile(const std::string& flag, std::string path);
  ~PartialFile();  // removes what was written unless finish() was reached
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(const void* data, std::size_t bytes);
  // Throws std::runtime_error when the disk did not take everything.
  void finish();
  void finish(const std::string& contents);  // writes them first
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string partial_path_;
  std::ofstream file_;
  bool finished_ = false;
};

}  // namespace moetune
