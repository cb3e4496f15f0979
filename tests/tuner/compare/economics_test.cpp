#include "tuner/compare/economics.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Economics, AMillionTokensAtAThousandASecondTakeAThousandSeconds) {
  EXPECT_DOUBLE_EQ(usd_per_mtok(3.6, 1000.0), 1.0);
  EXPECT_DOUBLE_EQ(usd_per_mtok(3.6, 500.0), 2.0);
}

TEST(Economics, OwningSpreadsThePriceOverAllHoursAndAddsPower) {
  // 8,760 USD over one year is one dollar an hour; 2 kW at 0.25 USD/kWh are half a dollar.
  const Owning own = owning(8760.0, 1.0, 2000.0, 400.0, 0.25);
  EXPECT_DOUBLE_EQ(own.capital, 1.0);
  EXPECT_DOUBLE_EQ(own.busy_power, 0.5);
  EXPECT_DOUBLE_EQ(own.idle_power, 0.1);
  EXPECT_DOUBLE_EQ(own.busy(), 1.5);
}

TEST(Economics, AtTheBreakEvenShareBothCostTheSame) {
  const Owning own = owning(8760.0, 1.0, 2000.0, 400.0, 0.25);
  const double rent = 3.0;
  const auto share = break_even_busy_share(own, rent);
  ASSERT_TRUE(share);
  EXPECT_NEAR(own.capital + *share * own.busy_power + (1.0 - *share) * own.idle_power, *share * rent, 1e-12);
  EXPECT_GT(*break_even_busy_share(own, 1.2), 1.0) << "renting is cheaper at any load";
  EXPECT_FALSE(break_even_busy_share(own, 0.3)) << "the rent does not cover the power";
}

TEST(Economics, ADearBoxPaysOnceTheLoadNeedsMoreCheapOnesThanItCosts) {
  const Rented cheap{.usd_per_hour = 1.0, .tokens_per_s = 100.0};
  // 3.5 USD buy three cheap boxes, which serve 300 tokens/s; a fourth costs more than the dear one.
  EXPECT_EQ(break_even_load({3.5, 1000.0}, cheap), 300.0);
  EXPECT_FALSE(break_even_load({3.5, 300.0}, cheap)) << "it serves no more than those three";
  EXPECT_EQ(break_even_load({1.0, 150.0}, cheap), 100.0)
      << "the same price and faster: from where one cheap box is not enough";
}

}  // namespace
}  // namespace moetune
