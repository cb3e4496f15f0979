// How many cores the control groups of this process grant it. Separate from parallel_for.h so that tests can
// show it invented /proc and /sys trees.
#pragma once

#include <filesystem>
#include <optional>

namespace moetune {

// Cores granted by the cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us / cpu.cfs_period_us) limits of the
// process, the smallest on the way up to the root; empty when nothing limits it or nothing can be read.
// membership: /proc/self/cgroup; hierarchy: /sys/fs/cgroup.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& membership,
                                       const std::filesystem::path& hierarchy);

}  // namespace moetune
