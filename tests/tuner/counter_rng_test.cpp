#include "tuner/counter_rng.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(CounterRng, IsPhilox4x32_10) {
  // Known answers of the authors' library (Random123, kat_vectors): counter and key
  // all zero, and the digits of pi.
  EXPECT_EQ(CounterRng(0, RngStage{0}, 0).bits(0), 0xe169c58d6627e8d5U);
  EXPECT_EQ(CounterRng(0xffffffffffffffffU, RngStage{0xffffffffU}, 0xffffffffU).bits(0xffffffffffffffffU),
            0x41c83b0e408f276dU);
  EXPECT_EQ(CounterRng(0x299f31d0a4093822U, RngStage{0x03707344U}, 0x13198a2eU).bits(0x85a308d3243f6a88U),
            0x94fdccebd16cfe09U);
}

TEST(CounterRng, EveryPartOfTheKeyMatters) {
  const std::set<std::uint64_t> different{
      CounterRng(1, RngStage::random_order, 0).bits(0), CounterRng(2, RngStage::random_order, 0).bits(0),
      CounterRng(1, RngStage::bootstrap, 0).bits(0), CounterRng(1, RngStage::random_order, 1).bits(0),
      CounterRng(1, RngStage::random_order, 0).bits(1)};
  EXPECT_EQ(different.size(), 5U);
}

TEST(CounterRng, UniformIsUniform) {
  const CounterRng rng(42, RngStage::bootstrap);
  constexpr int draws = 100000;
  std::array<int, 20> counts{};
  for (int i = 0; i < draws; ++i) {
    const double u = rng.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<std::size_t>(u * 20)];
  }
  double chi_square = 0.0;
  for (const int count : counts) chi_square += std::pow(count - draws / 20.0, 2) / (draws / 20.0);
  EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST(CounterRng, BelowReachesEveryValueAndNoOther) {
  const CounterRng rng(7, RngStage::nsga2_refill);
  std::vector<int> counts(7, 0);
  for (std::uint64_t i = 0; i < 7000; ++i) ++counts.at(rng.below(7, i));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(rng.below(1, 3), 0U);
}

TEST(RngSequence, WalksTheIndices) {
  const CounterRng rng(9, RngStage::nsga2_variation, 4);
  RngSequence sequence(rng);
  EXPECT_EQ(sequence.bits(), rng.bits(0));
  EXPECT_EQ(sequence.uniform(), rng.uniform(1));
  EXPECT_EQ(sequence.below(10), rng.below(10, 2));
}

}  // namespace
}  // namespace moetune
