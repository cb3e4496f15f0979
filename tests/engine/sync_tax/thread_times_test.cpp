#include "engine/sync_tax/thread_times.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace moetune {
namespace {

// As /proc has it: self leads to the process's own folder.
class Tasks {
 public:
  Tasks() { std::filesystem::create_directory_symlink("100", folder_ / "self"); }
  void put(int id, const std::string& name, const std::string& schedstat) {
    const std::filesystem::path task = std::filesystem::path(folder_ / "100") / "task" / std::to_string(id);
    std::filesystem::create_directories(task);
    std::ofstream(task / "comm") << name << '\n';
    if (!schedstat.empty()) std::ofstream(task / "schedstat") << schedstat << '\n';
  }
  std::vector<ThreadTime> look() const { return thread_times(folder_ / "self/task"); }

 private:
  TemporaryDirectory folder_;
};

TEST(ThreadTimes, AreThoseOfTheProcess) {
  Tasks tasks;
  tasks.put(100, "moetune", "500 20 3");
  tasks.put(103, "cuda-EvtHandlr", "900 0 1");
  tasks.put(104, "no counters", "");
  const std::vector<ThreadTime> threads = tasks.look();
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[0].name, "cuda-EvtHandlr");
  EXPECT_EQ(threads[0].running_ns, 900);
  EXPECT_EQ(threads[1].name, "main");
  EXPECT_EQ(threads[1].waiting_ns, 20);
  EXPECT_TRUE(thread_times("/nowhere/task").empty());
}

TEST(ThreadTimes, BetweenTwoLooksThoseThatRanCount) {
  Tasks tasks;
  tasks.put(100, "moetune", "500 20 3");
  tasks.put(103, "sleeps", "900 0 1");
  tasks.put(105, "ends, and its number is taken", "400 0 1");
  const std::vector<ThreadTime> before = tasks.look();
  tasks.put(100, "moetune", "800 25 3");
  tasks.put(104, "is new", "1000 7 1");
  tasks.put(105, "another", "30 0 1");
  std::vector<ThreadTime> spent = between(before, tasks.look());
  ASSERT_EQ(spent.size(), 3U);
  EXPECT_EQ(spent[0].name, "is new");
  EXPECT_EQ(spent[0].running_ns, 1000);
  EXPECT_EQ(spent[1].running_ns, 300);
  EXPECT_EQ(spent[1].waiting_ns, 5);
  EXPECT_EQ(spent[2].running_ns, 30);
  add(spent, std::vector{ThreadTime{100, "main", 800, 1}, ThreadTime{200, "one more", 1, 1}});
  ASSERT_EQ(spent.size(), 4U);
  EXPECT_EQ(spent[0].name, "main");
  EXPECT_EQ(spent[0].running_ns, 1100);
  EXPECT_EQ(spent[0].waiting_ns, 6);
}

TEST(ThreadTimes, OfThisProcessHaveItsFirstThread) {
  const std::vector<ThreadTime> threads = thread_times();
  if (threads.empty()) GTEST_SKIP() << "this kernel counts no time of threads";
  EXPECT_EQ(std::ranges::count(threads, "main", &ThreadTime::name), 1);
}

}  // namespace
}  // namespace moetune
