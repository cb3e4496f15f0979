#include "kernels/dynamic_library.h"

#include <dlfcn.h>

namespace moetune {

DynamicLibrary::DynamicLibrary(const std::string& name)
    : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (is_open()) return;
  const char* reason = dlerror();
  problem_ = reason != nullptr ? reason : name;
}

DynamicLibrary::~DynamicLibrary() {
  if (is_open()) dlclose(handle_);
}

void* DynamicLibrary::address_of(const char* name) const {
  // Without a handle dlsym() would look through the program itself.
  return is_open() ? dlsym(handle_, name) : nullptr;
}

}  // namespace moetune
