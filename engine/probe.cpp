#include "engine/probe.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <numeric>
#include <sstream>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "kernels/device.h"
#include "kernels/parallel_for.h"
#include "kernels/simd/instruction_set.h"
#include "moetune/build_info.h"

namespace moetune {
namespace {

// The value of the first line "name : value" of a file of such lines; empty when there is none.
std::string field_of(const char* file_name, std::string_view name) {
  std::ifstream file(file_name);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos) continue;
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    return first == std::string::npos ? std::string() : line.substr(first);
  }
  return {};
}

std::int64_t memory_of_machine() {
  return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::int64_t>(sysconf(_SC_PAGE_SIZE));
}

// Limit of the control group, v2 or v1, the smallest on the way to the root; "max" and absent files set none.
std::int64_t memory_of_control_group() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const std::size_t path_start = line.rfind(':');
    if (path_start == std::string::npos) continue;
    const bool is_v2 = line.starts_with("0::");
    if (!is_v2 && line.find(":memory:") == std::string::npos) continue;
    const std::string root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    for (std::string path = line.substr(path_start + 1);; path.erase(path.rfind('/'))) {
      std::ifstream limit(root + path + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
      if (std::int64_t bytes = 0; limit >> bytes && bytes > 0) least = std::min(least, bytes);
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

std::string operating_system() {
  utsname names = {};
  if (uname(&names) != 0) return "unknown";
  return std::string(names.sysname) + " " + names.release;
}

}  // namespace

std::int64_t last_level_cache_bytes() {
  for (const int level : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE})
    if (const long bytes = sysconf(level); bytes > 0) return bytes;
  return 0;
}

std::int64_t usable_memory_bytes() { return std::min(memory_of_machine(), memory_of_control_group()); }

std::int64_t available_memory_bytes() {
  const std::int64_t usable = usable_memory_bytes();
  std::istringstream words(field_of("/proc/meminfo", "MemAvailable"));  // "12345 kB"
  std::int64_t kib = 0;
  return words >> kib ? std::min(usable, kib * 1024) : usable;
}

ReadRate read_rate_of(std::span<const double> gb_per_s, double running_share) {
  if (gb_per_s.empty()) return {};
  const auto [worst, best] = std::ranges::minmax(gb_per_s);
  if (best <= 0.0) return {};
  return {.gb_per_s = best, .spread = 1.0 - std::min(worst / best, std::clamp(running_share, 0.0, 1.0))};
}

namespace {

std::int64_t thread_cpu_ns() {
  timespec time = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

}  // namespace

ReadRate measured_read_rate(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr int repeats = 4;
  constexpr std::int64_t block_bytes = std::int64_t{64} << 20;
  constexpr int passes = 6;
  const std::vector<std::uint64_t> block(static_cast<std::size_t>(block_bytes) / sizeof(std::uint64_t), 1);
  Cpu cpu(threads);
  std::atomic<std::uint64_t> checksum = 0;
  std::atomic<std::int64_t> running_ns = 0;  // of all pieces
  std::atomic<std::int64_t> wall_ns = 0;
  std::array<double, repeats> rates{};
  for (double& rate : rates) {
    double best_seconds = std::numeric_limits<double>::max();
    for (int pass = 0; pass < passes; ++pass) {
      const Clock::time_point start = Clock::now();
      cpu.pool().parallel_for(std::ssize(block), 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t running_before = thread_cpu_ns();
        const Clock::time_point piece_start = Clock::now();
        checksum += std::accumulate(block.begin() + begin, block.begin() + end, std::uint64_t{0});
        wall_ns += std::chrono::nanoseconds(Clock::now() - piece_start).count();
        running_ns += thread_cpu_ns() - running_before;
      });
      best_seconds = std::min(best_seconds, std::chrono::duration<double>(Clock::now() - start).count());
    }
    rate = static_cast<double>(block_bytes) / best_seconds / 1e9;
  }
  // The sum is known: reading it back keeps the compiler from dropping the reads.
  if (checksum != std::uint64_t{repeats} * passes * block.size()) return {};
  return read_rate_of(
      rates, static_cast<double>(running_ns) / static_cast<double>(std::max<std::int64_t>(wall_ns, 1)));
}

HardwareFingerprint probe_hardware(int threads) {
  HardwareFingerprint hardware = describe_host(threads);
  const ReadRate rate = measured_read_rate(threads);
  hardware.memory_gb_per_s = rate.gb_per_s;
  hardware.memory_rate_spread = rate.spread;
  return hardware;
}

HardwareFingerprint describe_host(int threads) {
  HardwareFingerprint hardware;
  hardware.device = "cpu";
  hardware.device_bytes = usable_memory_bytes();
  hardware.cpu_name = field_of("/proc/cpuinfo", "model name");
  if (hardware.cpu_name.empty()) hardware.cpu_name = "unknown";
  hardware.cpu_cores = threads > 0 ? std::min(threads, usable_cores()) : usable_cores();
  hardware.simd = simd_instruction_set();
  hardware.host_bytes = memory_of_machine();
  hardware.interconnect = "none";
  hardware.cuda = build_info::cuda_version;
  hardware.os = operating_system();
  hardware.build = std::string(build_info::version) + " " + std::string(build_info::commit);
  return hardware;
}

}  // namespace moetune
