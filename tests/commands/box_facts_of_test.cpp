#include "tuner/commands/box_facts_of.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

TEST(BoxFactsOf, ProcessesThatWeStartedAreOurs) {
  const TemporaryDirectory proc;
  const auto write = [&](int pid, int parent) {
    std::filesystem::create_directories(proc.path() / std::to_string(pid));
    std::ofstream(proc.path() / std::to_string(pid) / "stat")
        << pid << " (x y) S " << parent << " 0 0 0 0 0 0 0 0 0 1 2 3 4 0\n";
  };
  write(100, 1);
  write(200, 100);
  write(300, 200);
  write(400, 1);
  write(500, 500);  // a circle must end
  GpuHealth health;
  health.name = "card";
  for (const int pid : {100, 300, 400, 500, 600})
    health.processes.push_back({.pid = pid, .name = "x", .bytes = 1});
  const GpuState gpu = state_of(health, proc.path().string(), 100);
  ASSERT_EQ(gpu.processes.size(), 5U);
  EXPECT_TRUE(gpu.processes[0].is_ours);
  EXPECT_TRUE(gpu.processes[1].is_ours);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_FALSE(gpu.processes[i].is_ours);
}

TEST(BoxFactsOf, ARunOnTheProcessorDoesNotSufferFromTheGpu) {
  BoxFacts box;
  box.build_has_cuda = true;
  box.gpus.resize(1);
  box.gpus[0].throttle_reasons = {"hw_thermal"};
  EXPECT_EQ(findings_for(box, true).size(), 1U);
  EXPECT_TRUE(findings_for(box, false).empty());
  box.swapping_mb_per_s = 2 * kSwappingMbPerS;
  EXPECT_EQ(findings_for(box, false).size(), 1U);
}

TEST(BoxFactsOf, ThisMachineHasMemoryAndCores) {
  const BoxFacts box = look_at_box(false);
  EXPECT_GT(box.host_bytes, 0);
  EXPECT_GT(box.usable_cores, 0);
  EXPECT_GE(box.machine_cores, box.usable_cores);
  EXPECT_FALSE(box.host_gb_per_s);
}

}  // namespace
}  // namespace moetune
