// ParallelPool: every index once, pieces of a decent size, exceptions, nesting, several callers.
#include "kernels/parallel_for.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace moetune {
namespace {

struct Piece {
  std::int64_t begin;
  std::int64_t end;
};

std::vector<Piece> pieces_of(ParallelPool& pool, std::int64_t count, std::int64_t grain) {
  std::mutex mutex;
  std::vector<Piece> pieces;
  pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.push_back({begin, end});
  });
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  return pieces;
}

TEST(ParallelFor, CoversEveryIndexOnceInPiecesOfAtLeastTheGrain) {
  for (const int threads : {1, 2, 3, 5}) {
    ParallelPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const std::int64_t count : {1, 2, 3, 7, 8, 9, 100, 1001})
      for (const std::int64_t grain : {1, 2, 3, 10, 99, 100, 5000}) {
        const std::vector<Piece> pieces = pieces_of(pool, count, grain);
        ASSERT_FALSE(pieces.empty());
        std::int64_t next = 0;
        for (const auto& [begin, end] : pieces) {
          EXPECT_EQ(begin, next);
          EXPECT_LT(begin, end);
          EXPECT_TRUE(end == count || end - begin >= grain) << begin << " to " << end;
          next = end;
        }
        EXPECT_EQ(next, count);
        EXPECT_EQ(pieces.size() > 1, threads > 1 && count >= 2 * grain) << count << " by " << grain;
      }
  }
}

TEST(ParallelFor, EmptyRangesCallNothing) {
  ParallelPool pool(2);
  for (const std::int64_t count : {0, -1}) EXPECT_TRUE(pieces_of(pool, count, 1).empty());
}

TEST(ParallelFor, SmallWorkStaysOnTheCallersThread) {
  ParallelPool pool(2);
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(10, 10, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(end - begin, 10);
  });
}

// Two pieces that each wait until the other has begun: passes only when two threads work at once.
TEST(ParallelFor, TwoThreadsWorkAtTheSameTime) {
  ParallelPool pool(2);
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> present;
  pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    std::unique_lock lock(mutex);
    present.insert(std::this_thread::get_id());
    changed.notify_all();
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return present.size() == 2; }));
  });
}

TEST(ParallelFor, TheBodysExceptionReachesTheCallerAndThePoolGoesOn) {
  for (const int threads : {1, 2, 3}) {
    ParallelPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      try {
        pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
          if (begin <= 70 && 70 < end) throw std::runtime_error("index 70");
        });
        FAIL() << "nothing thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "index 70");
      }
      EXPECT_FALSE(pieces_of(pool, 100, 1).empty());
    }
  }
}

TEST(ParallelFor, AllPiecesThrowingIsOneException) {
  ParallelPool pool(3);
  for (int round = 0; round < 50; ++round)
    EXPECT_THROW(
        pool.parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw std::invalid_argument("each"); }),
        std::invalid_argument);
}

TEST(ParallelFor, NestedCallsRunInlineAsOnePiece) {
  ParallelPool pool(2);
  std::atomic<std::int64_t> total{0};
  pool.parallel_for(8, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto thread = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i)
      pool.parallel_for(1000, 1, [&](std::int64_t inner_begin, std::int64_t inner_end) {
        EXPECT_EQ(std::this_thread::get_id(), thread);
        EXPECT_EQ(inner_begin, 0);
        total += inner_end - inner_begin;
      });
  });
  EXPECT_EQ(total, 8000);
}

TEST(ParallelFor, AfterANestedCallTheCallerIsParallelAgain) {
  ParallelPool pool(2);
  pool.parallel_for(
      8, 1, [&](std::int64_t, std::int64_t) { pool.parallel_for(4, 1, [](std::int64_t, std::int64_t) {}); });
  EXPECT_GT(pieces_of(pool, 100, 1).size(), 1U);
}

TEST(ParallelFor, SeveralThreadsMayShareAPool) {
  ParallelPool pool(2);
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round)
        pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) { total += end - begin; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 100 * 64);
}

TEST(ParallelFor, ResultsOfOtherThreadsAreVisibleAfterwards) {
  ParallelPool pool(3);
  std::vector<int> values(10'000, 0);  // plain ints: the return of parallel_for is what orders the accesses
  for (int round = 1; round <= 100; ++round) {
    pool.parallel_for(10'000, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++values[static_cast<std::size_t>(i)];
    });
    for (const int value : values) ASSERT_EQ(value, round);
  }
}

TEST(UsableCores, AtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace moetune
