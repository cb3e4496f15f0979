// In a process of its own: what is pinned stays pinned.
#include "engine/rank_threads.h"

#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "kernels/core_seat.h"
#include "kernels/parallel_for.h"

namespace moetune {
namespace {

bool have_cores_of_their_own(RankThreads& ranks) {
  std::array<int, 2> cores{};
  ranks.run([&](int rank) { cores.at(static_cast<std::size_t>(rank)) = core_of_this_thread(); }, [] {});
  return cores[0] >= 0 && cores[1] >= 0 && cores[0] != cores[1];
}

// Ranks wait for each other in every layer: two on one core took eight times as long. A new thread may run
// only where its maker may, which is pinned; and an engine that rests keeps its threads.
TEST(RankThreadsDeathTest, RanksKeepCoresOfTheirOwnBesideThoseOfAnotherEngine) {
  if (usable_cores() < 2) GTEST_SKIP() << "one core: all ranks share it";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        keep_threads_on_cores();
        RankThreads ranks(2);
        RankThreads others(2);
        const bool holds = have_cores_of_their_own(ranks) && have_cores_of_their_own(others) &&
                           have_cores_of_their_own(ranks);
        std::_Exit(holds ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace moetune
