// Runs a program to its end and hands over what it printed to stdout. For questions that are better answered
// in a process of their own, such as "which GPU is here?". Workers, which live longer, are worker_process.h.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace moetune {

struct ChildOutput {
  std::string text;
  std::string problem;  // "was killed by SIGSEGV", "gave no answer within 60 s"; empty: it ended with 0
};

// Its stdin is empty, its stderr is ours. Killed when it takes longer or prints more than a megabyte.
// Throws std::runtime_error when it cannot be started.
ChildOutput output_of(const std::vector<std::string>& command, std::chrono::seconds at_most);

}  // namespace moetune
