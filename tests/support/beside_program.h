// Where a library that stands in for a driver's lies: beside the test program, in the build folder and in the
// bundle alike.
#pragma once

#include <filesystem>
#include <string>

namespace moetune {

inline std::string beside_program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace moetune
