#include "tuner/targets/throttle.h"

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "tuner/named_numbers.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The group's folder, from the line "0::/path" of cgroup v2; the quota of a group above holds back all below
// it, and is counted there, so all of them up to the root are looked at.
std::vector<fs::path> cpu_stat_files(const fs::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  std::vector<fs::path> files;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;
    const fs::path mount = root / "sys/fs/cgroup";
    for (fs::path group = line.substr(4);; group = group.parent_path()) {
      files.push_back(mount / group / "cpu.stat");
      if (group.empty()) break;
    }
  }
  return files;
}

std::vector<fs::path> heat_files(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/cpu", none))
    for (const char* name : {"core_throttle_count", "package_throttle_count"})
      if (const fs::path file = entry.path() / "thermal_throttle" / name; fs::exists(file, none))
        files.push_back(file);
  return files;
}

}  // namespace

ThrottleCounter cpu_throttle_counter(const std::string& root) {
  const fs::path top = root.empty() ? fs::path("/") : fs::path(root);
  return [quotas = cpu_stat_files(top), heat = heat_files(top)]() -> std::optional<std::int64_t> {
    std::optional<std::int64_t> sum;
    const auto add = [&](std::optional<std::uint64_t> count) {
      if (count) sum = sum.value_or(0) + static_cast<std::int64_t>(*count);
    };
    for (const fs::path& file : quotas) add(number_named("nr_throttled", file));
    for (const fs::path& file : heat) add(number_in(file));
    return sum;
  };
}

ThrottleWatch::ThrottleWatch(ThrottleCounter counter)
    : counter_(std::move(counter)), last_(counter_ ? counter_() : std::nullopt) {}

bool ThrottleWatch::was_throttled() {
  const std::optional<std::int64_t> now = counter_ ? counter_() : std::nullopt;
  const bool grew = now && last_ && *now > *last_;
  last_ = now;
  return grew;
}

}  // namespace moetune
