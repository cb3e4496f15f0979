#include "tuner/memory_kills.h"

#include <fstream>

#include "tuner/named_numbers.h"

namespace moetune {

std::string memory_kill_counter_file() {
  // Version 2 lists one line "0::/path"; version 1 one line per controller.
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool unified = line.starts_with("0::");
    const auto memory = line.find(":memory:");
    if (!unified && memory == std::string::npos) continue;
    const std::string group = unified ? line.substr(3) : line.substr(memory + 8);
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // Inside a container the path may be one of the host, which is not visible here; its own group is the
    // root then.
    for (const std::string& folder : {root + group, root}) {
      const std::string file = folder + (unified ? "/memory.events" : "/memory.oom_control");
      if (memory_kills(file)) return file;
    }
  }
  return "/proc/vmstat";
}

std::optional<std::uint64_t> memory_kills(const std::string& counter_file) {
  return number_named("oom_kill", counter_file);
}

}  // namespace moetune
