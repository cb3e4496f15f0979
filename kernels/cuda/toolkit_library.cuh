// Libraries of the CUDA toolkit, opened at run time: a machine without one loses what it is for and nothing
// else.
#pragma once

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dynamic_library.h"

namespace moetune::cuda {

// Null, with why in `problem`, where it is neither in the library path nor in one of `folders` ("/lib64/") of
// a toolkit. home_folders: those of them that `problem` names. Never closed.
inline const DynamicLibrary* open_toolkit_library(const std::string& file,
                                                  std::initializer_list<const char*> folders,
                                                  const std::string& home_folders, std::string& problem) {
  auto library = std::make_unique<DynamicLibrary>(file);
  std::string searched = "the library path, /usr/local/cuda";
  std::vector<std::string> roots = {"/usr/local/cuda"};
  if (const char* const home = std::getenv("CUDA_HOME"); home != nullptr) {
    roots.insert(roots.begin(), home);
    searched += std::string(" and ") + home;
  }
  for (const std::string& root : roots)
    for (const char* folder : folders)
      if (!library->is_open()) library = std::make_unique<DynamicLibrary>(root + folder + file);
  if (library->is_open()) return library.release();
  problem = file + " is not found in " + searched + "; it comes with the CUDA toolkit, in " + home_folders +
            ": add that folder to LD_LIBRARY_PATH";
  return nullptr;
}

// product: "cuBLAS". `problem` names the first function that is not there.
template <class Function>
void find_in_toolkit(const DynamicLibrary& library, const char* product, const char* name,
                     Function*& function, std::string& problem) {
  if (!library.find(function, name) && problem.empty())
    problem = std::string("this machine's ") + product + " has no " + name;
}

}  // namespace moetune::cuda
