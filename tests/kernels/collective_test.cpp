// AllReduce between ranks that are threads: exact sums, equal bits, reuse, and what happens when a rank
// fails.
#include "kernels/collective.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

// Runs body(rank) on a thread each and waits for all.
void on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

void all_reduce(LocalGroup& group, int rank, const Tensor& x) {
  Device device = cpu();
  run(device, AllReduce{.x = x, .group = &group, .rank = rank});
}

TEST(AllReduce, SumsIntegersExactlyForAnySizeAndNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5})
    for (const std::int64_t count : {0, 1, 15, 16, 17, 100, 4099}) {
      LocalGroup group(ranks);
      EXPECT_EQ(group.ranks(), ranks);
      std::vector<OwnedTensor> parts;
      for (int rank = 0; rank < ranks; ++rank)
        parts.push_back(
            filled({count}, [&](std::int64_t i) { return static_cast<float>((rank + 1) * 1000 + i); }));
      on_ranks(ranks,
               [&](int rank) { all_reduce(group, rank, parts[static_cast<std::size_t>(rank)].view()); });
      const OwnedTensor expected = filled({count}, [&](std::int64_t i) {
        return static_cast<float>(ranks * (ranks + 1) / 2 * 1000 + ranks * i);
      });
      for (const OwnedTensor& part : parts)
        expect_same_bits(part.view(), expected.view(),
                         std::to_string(ranks) + " ranks, " + std::to_string(count));
    }
}

TEST(AllReduce, EveryRankGetsTheBitsOfTheSumInRankOrder) {
  LocalGroup group(3);
  std::vector<OwnedTensor> parts;
  for (unsigned rank = 0; rank < 3; ++rank) parts.push_back(random_floats({2, 333}, rank));
  const OwnedTensor expected = filled({2, 333}, [&](std::int64_t i) {
    return (parts[0].view().f32()[i] + parts[1].view().f32()[i]) + parts[2].view().f32()[i];
  });
  on_ranks(3, [&](int rank) { all_reduce(group, rank, parts[static_cast<std::size_t>(rank)].view()); });
  for (const OwnedTensor& part : parts) expect_same_bits(part.view(), expected.view(), "rank order");
}

TEST(AllReduce, ManyInARowOfChangingSizes) {
  LocalGroup group(2);
  std::atomic<int> wrong{0};
  on_ranks(2, [&](int rank) {
    for (int round = 0; round < 500; ++round) {
      const OwnedTensor x =
          filled({1 + round % 50}, [&](std::int64_t) { return static_cast<float>(round + rank); });
      all_reduce(group, rank, x.view());
      for (const float value : values_of(x.view()))
        wrong += value == static_cast<float>(2 * round + 1) ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(AllReduce, AFailedRankWakesTheOthersAndTheGroupStaysClosed) {
  LocalGroup group(3);
  std::atomic<int> told{0};
  on_ranks(3, [&](int rank) {
    const OwnedTensor x = poisoned({8});
    if (rank == 1) return group.abort();
    try {
      all_reduce(group, rank, x.view());
    } catch (const std::runtime_error& error) {
      told += std::string(error.what()).find("another rank") != std::string::npos ? 1 : 0;
    }
  });
  EXPECT_EQ(told, 2);
  EXPECT_THROW(all_reduce(group, 0, poisoned({1}).view()), std::runtime_error);
}

// An abort at any moment: each all-reduce either completed for both ranks or failed for both.
TEST(AllReduce, AbortNeverTearsAnAllReduceApart) {
  for (int round = 0; round < 40; ++round) {
    LocalGroup group(2);
    std::atomic<int> completed[2] = {0, 0};
    std::thread aborter([&] {
      while (completed[0] < round) std::this_thread::yield();
      group.abort();
    });
    on_ranks(2, [&](int rank) {
      try {
        for (;;) {
          const OwnedTensor x = filled({64}, [](std::int64_t) { return 1.0F; });
          all_reduce(group, rank, x.view());
          ++completed[rank];
        }
      } catch (const std::runtime_error&) {
      }
    });
    aborter.join();
    EXPECT_EQ(completed[0], completed[1]);
  }
}

}  // namespace
}  // namespace moetune
