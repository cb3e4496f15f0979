// Sample: greedy, the distribution of draws, and that a draw depends on its seed and key alone.
#include "kernels/sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/philox.h"
#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

// The known answers published with the Random123 library.
TEST(Philox, KnownAnswers) {
  using Four = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Four{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Four{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Four{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::int32_t> sampled(const OwnedTensor& logits, const std::vector<std::int32_t>& keys,
                                  float temperature, std::uint64_t seed, int threads = 1) {
  Device device = cpu(threads);
  const OwnedTensor key = ids(keys);
  const OwnedTensor chosen = ids(std::vector<std::int32_t>(keys.size(), -1));
  run(device, Sample{.logits = logits.view(),
                     .keys = key.view(),
                     .ids = chosen.view(),
                     .temperature = temperature,
                     .seed = seed});
  return {chosen.view().i32(), chosen.view().i32() + keys.size()};
}

std::vector<std::int32_t> first_keys(int count) {
  std::vector<std::int32_t> keys(static_cast<std::size_t>(count));
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

TEST(Sample, GreedyTakesTheLargestAndTheLowerOfEquals) {
  Device device = cpu();
  const OwnedTensor logits = filled({3, 4}, [](std::int64_t i) {
    return std::vector<float>{1, 5, 5, 2, -3, -2, -1, -9, 7, 7, 7, 7}[static_cast<std::size_t>(i)];
  });
  const OwnedTensor chosen = ids({-1, -1, -1});
  run(device, Sample{.logits = logits.view(), .ids = chosen.view()});  // keys are not needed
  EXPECT_EQ((std::vector<std::int32_t>{chosen.view().i32(), chosen.view().i32() + 3}),
            (std::vector<std::int32_t>{1, 2, 0}));
}

TEST(Sample, DrawsFollowTheSoftmax) {
  const std::vector<double> shares{0.5, 0.25, 0.125, 0.0625, 0.0625};
  for (const float temperature : {1.0F, 0.5F}) {
    const int draws = 40'000;
    const OwnedTensor logits = filled({draws, 5}, [&](std::int64_t i) {
      return 3.0F + static_cast<float>(std::log(shares[static_cast<std::size_t>(i % 5)]));
    });
    std::vector<double> counts(5);
    for (const std::int32_t id : sampled(logits, first_keys(draws), temperature, 7))
      ++counts[static_cast<std::size_t>(id)];
    double total = 0.0;
    for (const double share : shares) total += std::pow(share, 1.0 / static_cast<double>(temperature));
    double chi_square = 0.0;
    for (std::size_t i = 0; i < 5; ++i) {
      const double expected = draws * std::pow(shares[i], 1.0 / static_cast<double>(temperature)) / total;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 18.47) << temperature;  // 4 degrees of freedom, one false alarm in a thousand seeds
  }
}

TEST(Sample, DependsOnSeedAndKeyOnly) {
  const OwnedTensor logits =
      filled({64, 1000}, [](std::int64_t i) { return std::sin(static_cast<float>(i % 1000)); });
  const std::vector<std::int32_t> keys = first_keys(64);
  const std::vector<std::int32_t> once = sampled(logits, keys, 1.0F, 1);
  EXPECT_EQ(sampled(logits, keys, 1.0F, 1, 2), once);
  EXPECT_NE(sampled(logits, keys, 1.0F, 2), once);
  EXPECT_NE(sampled(logits, keys, 1.0F, std::uint64_t{1} << 40 | 1), once);
  std::vector<std::int32_t> reversed(keys.rbegin(), keys.rend());
  const std::vector<std::int32_t> backwards = sampled(logits, reversed, 1.0F, 1);
  EXPECT_EQ((std::vector<std::int32_t>(backwards.rbegin(), backwards.rend())), once);
}

TEST(Sample, AlmostColdIsGreedyAndBannedTokensNeverCome) {
  const float banned = -std::numeric_limits<float>::infinity();
  const OwnedTensor logits =
      filled({200, 3}, [&](std::int64_t i) { return i % 3 == 0 ? banned : static_cast<float>(i % 3); });
  for (const std::int32_t id : sampled(logits, first_keys(200), 0.01F, 3)) EXPECT_EQ(id, 2);
  for (const std::int32_t id : sampled(logits, first_keys(200), 5.0F, 3)) EXPECT_NE(id, 0);
}

TEST(Sample, OneTokenVocabulary) {
  EXPECT_EQ(sampled(filled({1, 1}, [](std::int64_t) { return -4.0F; }), {9}, 1.0F, 1),
            (std::vector<std::int32_t>{0}));
}

}  // namespace
}  // namespace moetune
