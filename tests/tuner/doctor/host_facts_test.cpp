#include "tuner/doctor/host_facts.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(HostFacts, OfAMachineThatIsMadeUp) {
  const TemporaryDirectory folder;
  const fs::path root = folder.path();
  write(
      root / "proc/meminfo",
      "MemTotal:       1000 kB\nMemAvailable:    400 kB\nSwapTotal:       100 kB\nSwapFree:         60 kB\n");
  write(root / "proc/vmstat", "pswpin 10\npswpout 5\noom_kill 0\n");
  write(root / "proc/loadavg", "3.50 1.00 0.50 2/300 1234\n");
  write(root / "proc/self/status", "Name:\tx\nCpus_allowed_list:\t4-7\n");
  write(root / "sys/devices/system/cpu/online", "0-7\n");
  write(root / "sys/devices/system/node/node0/cpulist", "0-3\n");
  write(root / "sys/devices/system/node/node1/cpulist", "4-7\n");
  write(root / "sys/fs/cgroup/cpu.stat", "usage_usec 1\nnr_periods 200\nnr_throttled 50\n");
  BoxFacts box;
  int pauses = 0;
  std::chrono::milliseconds paused{};
  read_host_facts(
      root,
      [&](std::chrono::milliseconds time) {
        ++pauses;
        paused = time;
        write(root / "proc/vmstat", "pswpin 110\npswpout 105\n");
      },
      box);
  EXPECT_EQ(box.host_bytes, 1000 * 1024);
  EXPECT_EQ(box.available_bytes, 400 * 1024);
  EXPECT_EQ(box.swap_used_bytes, 40 * 1024);
  EXPECT_EQ(box.load, 3.5);
  EXPECT_EQ(box.machine_cores, 8);
  EXPECT_EQ(box.numa_nodes, 2);
  EXPECT_EQ(box.our_numa_nodes, std::vector<int>{1});
  EXPECT_EQ(box.throttled_share, 0.25);
  EXPECT_EQ(swapped_pages(root), 215);
  EXPECT_EQ(swapped_pages(root / "nowhere"), std::nullopt);
  EXPECT_EQ(pauses, 1);
  const double seconds = static_cast<double>(paused.count()) / 1e3;
  EXPECT_DOUBLE_EQ(box.swapping_mb_per_s.value(),
                   200.0 * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6 / seconds);
}

TEST(HostFacts, WithoutFilesNothingIsKnown) {
  const TemporaryDirectory folder;
  BoxFacts box;
  read_host_facts(folder.path(), {}, box);
  EXPECT_FALSE(box.available_bytes || box.swap_bytes || box.swapping_mb_per_s || box.load ||
               box.throttled_share);
  EXPECT_EQ(box.numa_nodes, 1);
}

TEST(HostFacts, Lists) {
  EXPECT_EQ(numbers_in_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(numbers_in_list("5"), std::vector<int>{5});
  for (const char* wrong : {"", "a", "3-", "3-1", "-4", "1-999999999", "1x"})
    EXPECT_TRUE(numbers_in_list(wrong).empty()) << wrong;
  EXPECT_FALSE(throttled_share_in("nr_periods 0\nnr_throttled 0\n"));
  EXPECT_FALSE(throttled_share_in("usage_usec 5\n"));
}

}  // namespace
}  // namespace moetune
