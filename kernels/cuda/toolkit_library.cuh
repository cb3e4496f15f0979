// Libraries of the CUDA toolkit, opened at run time: a machine without one loses what it is for and nothing
// else.
#pragma once

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

namespace moetune::cuda {

// Null, with why in `problem`, where it is neither in the library path nor in one of `folders` ("/lib64/") of
// a toolkit. home_folders: those of them that `problem` names. Never closed.
inline void* open_toolkit_library(const std::string& file, std::initializer_list<const char*> folders,
                                  const std::string& home_folders, std::string& problem) {
  void* handle = dlopen(file.c_str(), RTLD_NOW);
  std::string searched = "the library path, /usr/local/cuda";
  std::vector<std::string> roots = {"/usr/local/cuda"};
  if (const char* const home = std::getenv("CUDA_HOME"); home != nullptr) {
    roots.insert(roots.begin(), home);
    searched += std::string(" and ") + home;
  }
  for (const std::string& root : roots)
    for (const char* folder : folders)
      if (handle == nullptr) handle = dlopen((root + folder + file).c_str(), RTLD_NOW);
  if (handle == nullptr)
    problem = file + " is not found in " + searched + "; it comes with the CUDA toolkit, in " + home_folders +
              ": add that folder to LD_LIBRARY_PATH";
  return handle;
}

}  // namespace moetune::cuda
