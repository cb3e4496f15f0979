// What --json prints where a command says no before it has a result: the one document that a script waits
// for.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/error.h"

namespace moetune {

// With how much memory is missing.
class DoesNotFit : public NoFeasibleConfiguration {
 public:
  DoesNotFit(const std::string& message, std::int64_t missing_bytes)
      : NoFeasibleConfiguration(message), missing_bytes_(missing_bytes) {}
  std::int64_t missing_bytes() const { return missing_bytes_; }

 private:
  std::int64_t missing_bytes_;
};

// {"error": "...", "exit_code": 4, "missing_bytes": 2411724}; missing_bytes: null unless it is a DoesNotFit.
nlohmann::json refusal_document(ExitCode code, const std::exception& error);

}  // namespace moetune
