// A folder of one's own that is gone with the object: for what processes of one command tell each other.
#pragma once

#include <string>

namespace moetune {

class TemporaryFolder {
 public:
  TemporaryFolder();  // throws std::runtime_error where none can be made
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace moetune
