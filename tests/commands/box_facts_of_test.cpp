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

GpusSeen busy_gpu(int percent, int processes) {
  GpusSeen seen;
  seen.gpus.resize(1);
  seen.gpus[0].busy_percent = percent;
  seen.gpus[0].processes.resize(static_cast<std::size_t>(processes));
  return seen;
}

// Figures that stand for looks half a second apart; returns what was believed, and how long was waited for
// it.
std::pair<GpusSeen, std::chrono::milliseconds> settled(std::vector<GpusSeen> looks) {
  std::size_t next = 0;
  std::chrono::milliseconds waited(0);
  const GpusSeen seen = look_at_settled_gpus([&] { return looks[std::min(next++, looks.size() - 1)]; },
                                             [&](std::chrono::milliseconds time) { waited += time; });
  return {seen, waited};
}

TEST(BoxFactsOf, WhatAGpuDidASecondAgoIsNotSomebodyElses) {
  using std::chrono::milliseconds;
  const auto [idle, no_time] = settled({busy_gpu(0, 0)});
  EXPECT_EQ(idle.gpus[0].busy_percent, 0);
  EXPECT_EQ(no_time, milliseconds(0));
  const auto [rests, until_rest] = settled({busy_gpu(90, 0), busy_gpu(13, 0), busy_gpu(0, 0)});
  EXPECT_EQ(rests.gpus[0].busy_percent, 0);
  EXPECT_EQ(until_rest, milliseconds(1000));
  const auto [works, until_believed] = settled({busy_gpu(60, 0)});
  EXPECT_EQ(works.gpus[0].busy_percent, 60);
  EXPECT_EQ(until_believed, milliseconds(4000));
  const auto [named, at_once] = settled({busy_gpu(60, 1), busy_gpu(0, 0)});
  EXPECT_EQ(named.gpus[0].busy_percent, 60) << "its process shows: nothing to wait for";
  EXPECT_EQ(at_once, milliseconds(0));
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
