// Whether the kernel killed somebody for lack of memory. A worker that dies of SIGKILL while this counter
// rises did not crash: it was too large, and trying again would only do the same to the machine again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moetune {

// The file whose "oom_kill N" line counts for this process: its control group's (versions 2 and 1), else the
// machine's.
std::string memory_kill_counter_file();

// Empty when the file has no such line (kernels before 4.13).
std::optional<std::uint64_t> memory_kills(const std::string& counter_file);

}  // namespace moetune
