// What NVML says, against a library that stands in for it (support/fake_driver.cpp). Of a real driver nothing
// is known here.
#include "kernels/gpu_health.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/beside_program.h"

namespace moetune {
namespace {

std::string fake() { return beside_program("libfake_driver.so"); }

TEST(GpuHealth, IsWhatTheDriverAnswers) {
  const GpusSeen seen = look_at_gpus(fake());
  EXPECT_EQ(seen.problem, "");
  EXPECT_EQ(seen.driver_version, "580.95.05");
  EXPECT_EQ(seen.driver_cuda, "13.1");
  ASSERT_EQ(seen.gpus.size(), 2U);
  const GpuHealth& gpu = seen.gpus.front();
  EXPECT_EQ(gpu.name, "NVIDIA Fake");
  EXPECT_EQ(gpu.bus_id, "00000000:18:00.0");
  EXPECT_EQ(gpu.pcie_generation, 4);
  EXPECT_EQ(gpu.pcie_width, 8);
  EXPECT_EQ(gpu.most_pcie_generation, 5);
  EXPECT_EQ(gpu.most_pcie_width, 16);
  EXPECT_EQ(gpu.throttle_reasons, (std::vector<std::string>{"power_cap", "hw_thermal"}));
  EXPECT_EQ(gpu.ecc_enabled, true);
  EXPECT_EQ(gpu.uncorrected_errors, 3);
  EXPECT_EQ(gpu.busy_percent, 42);
  EXPECT_EQ(gpu.memory_bytes, 100);
  EXPECT_EQ(gpu.used_bytes, 60);
  EXPECT_EQ(gpu.link_gb_per_s, 2.5);
  EXPECT_EQ(gpu.nvlinks, 3);
  ASSERT_EQ(gpu.peers.size(), 1U);
  EXPECT_EQ(gpu.peers[0].path, "NODE");
  EXPECT_EQ(gpu.peers[0].nvlink, false);
  EXPECT_EQ(gpu.celsius, 88.0);
  ASSERT_EQ(gpu.processes.size(), 2U);
  EXPECT_EQ(gpu.processes[0].name, "python3");
  EXPECT_EQ(gpu.processes[0].bytes, 5000);
  EXPECT_EQ(gpu.processes[1].name, "");
  EXPECT_EQ(gpu.processes[1].bytes, 0);
}

TEST(GpuHealth, WhatACardDoesNotAnswerIsNotKnown) {
  const GpuHealth silent = look_at_gpus(fake()).gpus.at(1);
  EXPECT_EQ(silent.name, "NVIDIA Fake");
  EXPECT_TRUE(silent.bus_id.empty() && silent.throttle_reasons.empty() && silent.processes.empty());
  ASSERT_EQ(silent.peers.size(), 1U);
  EXPECT_EQ(silent.peers[0].bus_id, "00000000:18:00.0");
  EXPECT_TRUE(silent.peers[0].path.empty() && !silent.peers[0].nvlink);
  EXPECT_FALSE(silent.pcie_width || silent.busy_percent || silent.ecc_enabled || silent.nvlinks ||
               silent.link_gb_per_s);
}

TEST(GpuHealth, WithoutADriverThereIsAReason) {
  const GpusSeen seen = look_at_gpus("libnvidia-ml-that-is-not-there.so.1");
  EXPECT_TRUE(seen.gpus.empty());
  EXPECT_NE(seen.problem.find("libnvidia-ml-that-is-not-there.so.1"), std::string::npos);
}

TEST(GpuHealth, VersionOfNccl) {
  EXPECT_EQ(nccl_version(fake()), "2.28.3");
  EXPECT_EQ(nccl_version("libnccl-that-is-not-there.so.2"), "");
}

}  // namespace
}  // namespace moetune
