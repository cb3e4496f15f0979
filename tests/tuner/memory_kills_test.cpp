#include "tuner/memory_kills.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

TEST(MemoryKills, AreReadFromEveryKernelsFile) {
  const TemporaryDirectory folder;
  const std::string file = folder / "counter";
  std::ofstream(file) << "low 0\nhigh 0\nmax 17\noom 3\noom_kill 2\noom_group_kill 9\n";  // memory.events
  EXPECT_EQ(memory_kills(file), 2U);
  std::ofstream(file)
      << "oom_kill_disable 0\nunder_oom 0\noom_kill 18446744073709551615\n";  // memory.oom_control
  EXPECT_EQ(memory_kills(file), 18446744073709551615U);
  std::ofstream(file) << "nr_free_pages 1\nnr_oom 3\n";
  EXPECT_FALSE(memory_kills(file));
  std::ofstream(file) << "oom_kill many\n";
  EXPECT_FALSE(memory_kills(file));
  EXPECT_FALSE(memory_kills(folder / "none"));
}

TEST(MemoryKills, ThisMachineHasACounter) {
  if (!std::ifstream("/proc/vmstat")) GTEST_SKIP() << "no /proc/vmstat here";
  EXPECT_TRUE(memory_kills(memory_kill_counter_file())) << memory_kill_counter_file();
}

}  // namespace
}  // namespace moetune
