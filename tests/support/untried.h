// Lifts refusals of what no GPU has run yet (engine/untried.h), while it lives.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace moetune::testing {

class WithUntried {
 public:
  explicit WithUntried(std::string_view names) { set(std::string(names)); }
  ~WithUntried() { unsetenv("MOETUNE_UNTRIED"); }
  WithUntried(const WithUntried&) = delete;
  WithUntried& operator=(const WithUntried&) = delete;

 private:
  static void set(const std::string& names) { setenv("MOETUNE_UNTRIED", names.c_str(), 1); }
};

}  // namespace moetune::testing
