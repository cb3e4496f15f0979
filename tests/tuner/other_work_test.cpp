// Work of others is what the cores did less what we and our descendants did; a made-up /proc says how much
// that is.
#include "tuner/other_work.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

constexpr pid_t self = 100;

// Two cores; every snapshot is 100 ticks of each after the one before.
class Machine {
 public:
  Machine() { snapshot_.cores = 2; }
  CpuSnapshot after(std::uint64_t busy, std::vector<ProcessUse> processes) {
    snapshot_.ticks += 200;
    snapshot_.busy_ticks += busy;
    snapshot_.processes = std::move(processes);
    return snapshot_;
  }

 private:
  CpuSnapshot snapshot_;
};

TEST(CpuWatch, OwnWorkAndThatOfDescendantsIsNoDisturbance) {
  Machine machine;
  CpuWatch watch(self, 2);
  watch.add(machine.after(
      0, {{self, 1, "moetune", 10, 0}, {101, self, "moetune", 0, 0}, {102, 101, "helper", 0, 0}}));
  watch.add(machine.after(
      200, {{self, 1, "moetune", 20, 0}, {101, self, "moetune", 90, 0}, {102, 101, "helper", 100, 0}}));
  // A worker has ended: its time stands in the account of its parent.
  watch.add(machine.after(50, {{self, 1, "moetune", 30, 230}}));
  EXPECT_EQ(watch.other_cores(), 0.0);
  EXPECT_TRUE(watch.disturbances().empty());
}

TEST(CpuWatch, NamesWhoTakesTheCoresThatAreNeeded) {
  Machine machine;
  CpuWatch watch(self, 2);
  watch.add(machine.after(0, {{self, 1, "moetune", 0, 0}, {7, 1, "cc1\nplus", 1000, 0}}));
  watch.add(
      machine.after(180, {{self, 1, "moetune", 100, 0}, {7, 1, "cc1\nplus", 1050, 0}, {8, 7, "as", 20, 0}}));
  EXPECT_NEAR(watch.other_cores(), 0.8, 1e-12);
  EXPECT_EQ(watch.disturbances(),
            (std::vector<std::string>{
                "cc1 plus (process 7, 0.50 cores)", "as (process 8, 0.20 cores)",
                "processes that were short, small or cannot be seen from here (0.10 cores)"}));
}

TEST(CpuWatch, WorkOnCoresThatNobodyElseNeedsDisturbsNobody) {
  for (const int threads : {1, 2}) {
    Machine machine;
    CpuWatch watch(self, threads);
    watch.add(machine.after(0, {{self, 1, "moetune", 0, 0}, {7, 1, "other", 0, 0}}));
    watch.add(machine.after(200, {{self, 1, "moetune", 100, 0}, {7, 1, "other", 100, 0}}));
    EXPECT_NEAR(watch.other_cores(), 1.0, 1e-12);
    EXPECT_EQ(watch.disturbances().empty(), threads == 1);
  }
}

TEST(CpuWatch, OneLookSaysNothing) {
  Machine machine;
  CpuWatch watch(self, 2);
  EXPECT_EQ(watch.other_cores(), 0.0);
  watch.add(machine.after(200, {{7, 1, "other", 100, 0}}));
  EXPECT_TRUE(watch.disturbances().empty());
}

std::string stat_line(pid_t id, const std::string& name, pid_t parent, int user, int system) {
  return fmt::format("{} ({}) S {} 1 1 0 -1 4194560 1 2 3 4 {} {} 5 6 20 0 1 0 100\n", id, name, parent, user,
                     system);
}

TEST(CpuSnapshot, ReadsWhatTheKernelWrites) {
  const TemporaryDirectory proc;
  std::ofstream(proc / "stat") << "cpu  10 1 20 300 40 2 3 4 0 0\ncpu0 5 1 10 150 20 1 2 2 0 0\ncpu1 5 0 10 "
                                  "150 20 1 1 2 0 0\nintr 1 2 3\n";
  std::filesystem::create_directory(proc / "4711");
  std::filesystem::create_directory(proc / "net");
  std::filesystem::create_directory(proc / "4712");  // it has ended: no file
  std::ofstream(proc / "4711/stat") << stat_line(4711, "a) b (c", 17, 70, 7);
  const auto snapshot = look_at_cpus(proc / "");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->cores, 2);
  EXPECT_EQ(snapshot->ticks, 380U);
  EXPECT_EQ(snapshot->busy_ticks, 40U);
  ASSERT_EQ(snapshot->processes.size(), 1U);
  EXPECT_EQ(snapshot->processes[0].id, 4711);
  EXPECT_EQ(snapshot->processes[0].name, "a) b (c");
  EXPECT_EQ(snapshot->processes[0].parent, 17);
  EXPECT_EQ(snapshot->processes[0].ticks, 77U);
  EXPECT_EQ(snapshot->processes[0].ended_children_ticks, 11U);
  EXPECT_EQ(program_name(4711, proc / ""), "a) b (c");
  EXPECT_EQ(program_name(4712, proc / ""), "a process that cannot be seen from here");
  EXPECT_FALSE(look_at_cpus(proc / "4711")) << "no such files there";
}

TEST(CpuSnapshot, LinesThatAreNoneAreLeftOut) {
  for (const char* text : {"", "4711", "4711 (name", "x (name) S 1", "4711 (name) S 1 1 1",
                           "-3 (n) S 1 1 1 0 -1 1 1 2 3 4 1 1 5 6 20", ") ("})
    EXPECT_FALSE(process_use_from_stat(text)) << text;
}

TEST(CpuSnapshot, SeesThisProcess) {
  const auto snapshot = look_at_cpus();
  ASSERT_TRUE(snapshot);
  EXPECT_NE(std::ranges::find(snapshot->processes, ::getpid(), &ProcessUse::id), snapshot->processes.end());
}

}  // namespace
}  // namespace moetune
