// Processes on a GPU, against a library that stands in for NVML (support/fake_nvml.cpp).
#include "kernels/gpu_processes.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(GpuProcesses, NamesThoseThatComputeThere) {
  const GpuProcesses answer = gpu_processes("0000:05:00.0", FAKE_NVML);
  EXPECT_EQ(answer.problem, "");
  ASSERT_EQ(answer.processes.size(), 3U) << "more than there was room for at first";
  EXPECT_EQ(answer.processes[0].id, 4711U);
  EXPECT_EQ(answer.processes[0].bytes, 1 << 20);
  EXPECT_EQ(answer.processes[2].bytes, 0) << "NVML does not know how much it holds";
}

TEST(GpuProcesses, AnIdleGpuHasNone) {
  const GpuProcesses answer = gpu_processes("0000:01:00.0", FAKE_NVML);
  EXPECT_EQ(answer.problem, "");
  EXPECT_TRUE(answer.processes.empty());
}

TEST(GpuProcesses, SaysWhyTheyAreNotKnown) {
  EXPECT_EQ(gpu_processes("0000:02:00.0", FAKE_NVML).problem,
            "the processes of GPU 0000:02:00.0 cannot be read: error 3");
  EXPECT_EQ(gpu_processes("0000:09:00.0", FAKE_NVML).problem, "NVML does not know GPU 0000:09:00.0: error 6");
  EXPECT_NE(gpu_processes("0000:01:00.0", "libno-such-thing.so.1").problem.find("NVML cannot be opened"),
            std::string::npos);
}

}  // namespace
}  // namespace moetune
