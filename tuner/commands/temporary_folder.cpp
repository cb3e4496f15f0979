#include "tuner/commands/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace moetune {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() : path_((fs::temp_directory_path() / "moetune-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr)
    throw std::runtime_error(path_ + ": cannot be made: " + std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // nothing better can be done about what cannot be removed
  fs::remove_all(path_, ignored);
}

}  // namespace moetune
