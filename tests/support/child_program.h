// A program that a test starts, watches, kills and waits for.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace moetune {

// Path of tests/tuner/support/tune_synthetic.cpp's program: it is built beside the test program.
std::string tune_synthetic_program();

class ChildProgram {
 public:
  // Its stdout and stderr go into `output_file`.
  ChildProgram(const std::vector<std::string>& command, const std::string& output_file);
  ~ChildProgram();  // kills it
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // Exit status, or minus the number of the signal that killed it; empty when it still runs after that time.
  std::optional<int> wait(std::chrono::milliseconds at_most);
  int wait();

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// Processes whose parent is `pid`, now.
std::vector<pid_t> children_of(pid_t pid);
// Not there any more, or only waiting to be reaped.
bool is_gone(pid_t pid);
bool is_gone_within(pid_t pid, std::chrono::milliseconds at_most);

}  // namespace moetune
