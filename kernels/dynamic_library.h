// A library that is opened at run time, as those of a GPU's driver are: the program also starts where there
// is none. Closed with the object.
#pragma once

#include <string>

namespace moetune {

class DynamicLibrary {
 public:
  // Never throws: is_open() says whether it is there, problem() why not.
  explicit DynamicLibrary(const std::string& name);
  ~DynamicLibrary();
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;

  bool is_open() const { return handle_ != nullptr; }
  const std::string& problem() const { return problem_; }

  // False, and null, where the library has no such function, or is not open. That the function has the type
  // it is asked for as, nobody checks.
  template <class Function>
  bool find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address_of(name));
    return function != nullptr;
  }

 private:
  void* address_of(const char* name) const;

  void* handle_;
  std::string problem_;
};

}  // namespace moetune
