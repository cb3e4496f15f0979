// The two ways in which moetune says no. InputError is for what a person gave us (exit code 2);
// std::runtime_error is for what the machine did to us (exit code 1). Asserts are for our own mistakes only.
#pragma once

#include <stdexcept>
#include <string>

namespace moetune {

// Bad input: says where it is, what stands there and what would be accepted.
class InputError : public std::runtime_error {
 public:
  // where:    file, with line, tensor or field when there is one ("model/config.json: num_experts_per_tok")
  // found:    the value that is there, or what is missing
  // accepted: what would have been accepted
  InputError(const std::string& where, const std::string& found, const std::string& accepted)
      : std::runtime_error(where + ": " + found + (accepted.empty() ? "" : " (accepted: " + accepted + ")")) {
  }
};

// No configuration fits (exit code 4). The message names the nearest one, the bytes missing and the knob that
// frees them.
class NoFeasibleConfiguration : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Exit codes of the program, as the contract with scripts has them.
enum class ExitCode : int {
  done = 0,
  our_fault = 1,
  bad_input = 2,
  regression = 3,
  no_feasible_configuration = 4,
  indeterminate = 5,
  not_comparable = 6,
  interrupted = 130,
};

}  // namespace moetune
