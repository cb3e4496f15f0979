// cgroup_cpu_quota() on invented /proc and /sys trees.
#include "kernels/cpu_quota.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace moetune {
namespace {
namespace fs = std::filesystem;

class CgroupCpuQuota : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root = fs::path(::testing::TempDir()) / (std::string("cgroup_") + info->name());
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  std::optional<double> quota() const { return cgroup_cpu_quota(root / "membership", root / "sys"); }

  fs::path root;
};

TEST_F(CgroupCpuQuota, NothingThereIsNoLimit) { EXPECT_EQ(quota(), std::nullopt); }

TEST_F(CgroupCpuQuota, Version2) {
  write("membership", "0::/user/job\n");
  write("sys/user/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CgroupCpuQuota, Version2WithoutLimit) {
  write("membership", "0::/user/job\n");
  write("sys/user/job/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CgroupCpuQuota, ParentsLimitToo) {
  write("membership", "0::/user/job\n");
  write("sys/user/cpu.max", "200000 100000\n");
  write("sys/user/job/cpu.max", "700000 100000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CgroupCpuQuota, InAContainerOnlyTheRootCanBeSeen) {
  write("membership", "0::/docker/0123abc\n");
  write("sys/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CgroupCpuQuota, Version1UnderEitherName) {
  write("membership", "5:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/init\n");
  write("sys/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
  write("sys/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 3.0);
  write("sys/cpu/job/cpu.cfs_quota_us", "250000\n");
  write("sys/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 2.5);
}

TEST_F(CgroupCpuQuota, Version1WithoutLimit) {
  write("membership", "4:cpu:/\n");
  write("sys/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CgroupCpuQuota, NonsenseIsNoLimit) {
  write("membership", "\n::\n0::/job\nno colons here\n4:cpu\n");
  write("sys/job/cpu.max", "lots of it\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/job/cpu.max", "100000 0\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("sys/job/cpu.max", "-5 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(CgroupCpuQuota, DotsInTheGroupPathDoNotLeaveTheTree) {
  write("membership", "0::/../../other\n");
  write("other/cpu.max", "100000 100000\n");
  fs::create_directories(root / "sys");
  EXPECT_EQ(quota(), std::nullopt);
}

}  // namespace
}  // namespace moetune
