#include "tuner/targets/throttle.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {
namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(ThrottleWatch, SeesACountThatGrows) {
  std::optional<std::int64_t> count = 3;
  ThrottleWatch watch([&] { return count; });
  EXPECT_FALSE(watch.was_throttled());
  count = 5;
  EXPECT_TRUE(watch.was_throttled());
  EXPECT_FALSE(watch.was_throttled()) << "not since the last look";
  count.reset();
  EXPECT_FALSE(watch.was_throttled()) << "what cannot be read is no sign";
  EXPECT_FALSE(ThrottleWatch({}).was_throttled());
}

TEST(CpuThrottleCounter, AddsQuotasOfAllGroupsAndHeat) {
  const TemporaryDirectory folder;
  const fs::path root = folder.path();
  put(root / "proc/self/cgroup", "1:cpu:/old\n0::/jobs/mine\n");
  put(root / "sys/fs/cgroup/jobs/mine/cpu.stat", "usage_usec 10\nnr_periods 4\nnr_throttled 2\n");
  put(root / "sys/fs/cgroup/jobs/cpu.stat", "usage_usec 10\nnr_throttled 30\nthrottled_usec 5\n");
  put(root / "sys/fs/cgroup/cpu.stat", "usage_usec 10\n");
  put(root / "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "100\n");
  put(root / "sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count", "7000\n");
  const ThrottleCounter counter = cpu_throttle_counter(root.string());
  EXPECT_EQ(counter(), 7132);
  put(root / "sys/fs/cgroup/jobs/cpu.stat", "nr_throttled 31\n");
  EXPECT_EQ(counter(), 7133);
}

TEST(CpuThrottleCounter, KnowsNothingWhereThereIsNothingToRead) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(cpu_throttle_counter(folder.path())().has_value());
}

}  // namespace
}  // namespace moetune
