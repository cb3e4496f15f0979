// How long each thread of this process ran on a core, and how long it had to wait for one: what the host does
// beside a device. Start at thread_times().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moetune {

struct ThreadTime {
  std::int64_t id = 0;
  std::string name;             // "main", else what the thread is called
  std::int64_t running_ns = 0;  // on a core
  std::int64_t waiting_ns = 0;  // ready to run, and no core was free
};

// Since each of them began. Empty where the kernel does not count (no schedstat). tasks: tests give a folder
// of their own.
std::vector<ThreadTime> thread_times(const std::string& tasks = "/proc/self/task");

// What came to pass between two looks, longest first; threads that ended meanwhile are not in it, those that
// began are. Threads that neither ran nor waited are left out.
std::vector<ThreadTime> between(std::span<const ThreadTime> before, std::span<const ThreadTime> after);

// Adds by id; keeps the longest first.
void add(std::vector<ThreadTime>& sum, std::span<const ThreadTime> more);

}  // namespace moetune
