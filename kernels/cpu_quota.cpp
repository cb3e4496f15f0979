#include "kernels/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "kernels/parallel_for.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

std::optional<double> quota_v2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  std::string quota;  // microseconds per period, or "max"
  double period = 0.0;
  if (!(file >> quota >> period) || quota == "max" || !(period > 0.0)) return std::nullopt;
  const double granted = std::strtod(quota.c_str(), nullptr);
  return granted > 0.0 ? std::optional(granted / period) : std::nullopt;
}

std::optional<double> quota_v1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  double quota = 0.0;  // -1: none
  double period = 0.0;
  if (!(quota_file >> quota) || !(period_file >> period) || quota <= 0.0 || period <= 0.0)
    return std::nullopt;
  return quota / period;
}

// The smallest limit from `group` up to and including `root`. In a container the path of /proc may not exist
// below the mounted hierarchy; the root then still shows the container's own limit.
template <class Read>
std::optional<double> smallest_up_to_root(const fs::path& root, const std::string& group, const Read& read) {
  std::optional<double> smallest = read(root);
  fs::path path = root;
  for (const fs::path& part : fs::path(group).relative_path()) {
    if (part == "..") break;
    path /= part;
    if (const auto quota = read(path)) smallest = std::min(smallest.value_or(*quota), *quota);
  }
  return smallest;
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}
}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& membership, const fs::path& hierarchy) {
  std::optional<double> smallest;
  const auto narrow = [&smallest](std::optional<double> quota) {
    if (quota) smallest = std::min(smallest.value_or(*quota), *quota);
  };
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1)
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      narrow(smallest_up_to_root(hierarchy, group, quota_v2));
    } else if (names_cpu(controllers)) {
      narrow(smallest_up_to_root(hierarchy / controllers, group, quota_v1));
      narrow(smallest_up_to_root(hierarchy / "cpu", group, quota_v1));
    }
  }
  return smallest;
}

namespace {

int counted_cores() {
  int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  // Fails on machines with more than 1024 cores; hardware_concurrency() respects the mask as well.
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) cores = std::max(1, CPU_COUNT(&allowed));
  if (const auto quota = cgroup_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup")) {
    // Rounded down: a thread more than the quota pays for gets the whole process throttled, which ruins
    // measurements.
    cores = std::min(cores, std::max(1, static_cast<int>(std::floor(*quota))));
  }
  return cores;
}

}  // namespace

int usable_cores() {
  static const int cores = counted_cores();  // a thread that keeps a core (core_seat.h) would count one
  return cores;
}

}  // namespace moetune
