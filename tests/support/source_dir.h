// Where tests find the files of the repository.
#pragma once

#include <cstdlib>
#include <string>

namespace moetune {

// ctest sets it; without it the tests are run from the repository's root.
inline std::string source_dir() {
  const char* folder = std::getenv("MOETUNE_SOURCE_DIR");
  return folder != nullptr ? folder : ".";
}

}  // namespace moetune
