// Starts another program, as posix_spawn() does it. What becomes of it is up to the caller: child_output.h
// runs one to its end, worker_process.h talks to one.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moetune {

struct SpawnRequest {
  std::vector<std::string> command;  // the program's path, then its arguments
  std::vector<std::pair<int, int>> descriptors =
      {};                 // ours -> the child's; stdin is empty, others are as ours
  std::string role = "";  // what an error calls it, before its path: "the worker "
  // In a process group of its own, so that Ctrl-C reaches only us and a kill reaches what it starts.
  bool own_group = false;
  // Signals that do what they do by default in the child, with none of any kind blocked: exec keeps ignored
  // signals ignored. Empty: both are as ours.
  std::span<const int> default_signals = {};
};

// Throws std::runtime_error when the program cannot be started.
pid_t spawn(const SpawnRequest& request);

// Of a status of waitpid(): "was killed by SIGSEGV", "ended with exit status 3".
std::string how_it_ended(int status);

}  // namespace moetune
