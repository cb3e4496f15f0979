// In processes of their own: what is pinned stays pinned.
#include "kernels/core_seat.h"

#include <sched.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/parallel_for.h"

namespace moetune {
namespace {

int cores_of_this_thread() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
}

void exit_with(bool holds) { std::_Exit(holds ? 0 : 1); }

TEST(CoreSeatDeathTest, ThreadsWanderUnlessTold) {
  ParallelPool pool(1);
  pool.parallel_for(1, 1, [](std::int64_t, std::int64_t) {});
  EXPECT_EQ(core_of_this_thread(), -1);
}

TEST(CoreSeatDeathTest, EveryThreadHasTheEmptiestCore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const int cores = usable_cores();
        keep_threads_on_cores();
        take_core_seat();
        bool holds = cores_of_this_thread() == 1 && usable_cores() == cores;
        std::set<int> taken{core_of_this_thread()};
        std::vector<std::thread> threads;
        std::atomic<int> seated = 1;
        std::vector<int> seats(static_cast<std::size_t>(cores), -1);
        for (int thread = 1; thread < cores; ++thread)
          threads.emplace_back([&, thread] {
            take_core_seat();
            seats[static_cast<std::size_t>(thread)] = core_of_this_thread();
            ++seated;
            while (seated < cores) std::this_thread::yield();  // all sit at the same time
          });
        for (std::thread& thread : threads) thread.join();
        for (int thread = 1; thread < cores; ++thread) taken.insert(seats[static_cast<std::size_t>(thread)]);
        exit_with(holds && static_cast<int>(taken.size()) == cores);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(CoreSeatDeathTest, AThreadThatEndsLeavesItsCore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        keep_threads_on_cores();
        take_core_seat();
        int first = -1;
        int second = -1;
        std::thread([&] { take_core_seat(), first = core_of_this_thread(); }).join();
        std::thread([&] { take_core_seat(), second = core_of_this_thread(); }).join();
        exit_with(first >= 0 && first == second);
      },
      ::testing::ExitedWithCode(0), "");
}

// Two ranks of a model wait for each other: an idle helper's core is free for one of them.
TEST(CoreSeatDeathTest, WhoAsksSitsBesideAnIdleHelperAndNotBesideWhoAsks) {
  if (usable_cores() < 2) GTEST_SKIP() << "one core: all sit on it";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        keep_threads_on_cores();
        take_core_seat();
        std::atomic<int> stage = 0;
        int moved_to = -1;
        const auto until = [&](int wanted) {
          while (stage < wanted) std::this_thread::yield();
        };
        std::vector<std::thread> helpers;
        for (int core = 1; core < usable_cores(); ++core)
          helpers.emplace_back([&, core] {
            take_core_seat(SeatOf::a_helper);
            ++stage;
            until(usable_cores());
            take_core_seat(SeatOf::a_helper);  // after the other rank has sat down
            if (core == 1) moved_to = core_of_this_thread();
          });
        until(usable_cores() - 1);
        int other = -1;
        std::thread([&] {
          take_core_seat();
          other = core_of_this_thread();
          ++stage;
          for (std::thread& helper : helpers) helper.join();
        }).join();
        exit_with(other != core_of_this_thread() && moved_to >= 0 &&
                  (usable_cores() == 2 || moved_to != other));
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace moetune
