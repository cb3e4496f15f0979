#include "tuner/change_point.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/tuner/support/made_up_series.h"

namespace moetune {
namespace {

TEST(ChangePoint, IsWhereTheLevelChanges) {
  const std::vector<double> falls{5.1, 5.0, 5.2, 5.1, 5.3, 3.0, 3.1, 2.9, 3.2, 3.05};
  EXPECT_EQ(change_point(falls, 0.2), 5U);
  EXPECT_FALSE(change_point(falls, 0.01)) << "ten values cannot say so much";
}

TEST(ChangePoint, NeedsMoreThanEqualValues) {
  EXPECT_FALSE(change_point({}, 0.5));
  EXPECT_FALSE(change_point(std::vector<double>{1.0}, 0.5));
  EXPECT_FALSE(change_point(std::vector<double>(50, 2.0), 0.5));
}

TEST(ChangePoint, OneOutlierIsNone) {
  std::vector<double> values = made_up_series(3, 30, 0.0);
  values[20] = 1000.0;
  EXPECT_FALSE(change_point(values, 0.05));
}

TEST(ChangePoint, ShowsByChanceNoMoreOftenThanItSays) {
  for (const int count : {10, 20, 80}) {
    int found = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) found += change_point(made_up_series(i, count, 0.0), 0.2).has_value() ? 1 : 0;
    EXPECT_LE(found, 200) << count;
  }
}

TEST(ChangePoint, IsFoundUnderNoise) {
  int near = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    std::vector<double> values = made_up_series(i, 60, 0.0);
    for (std::size_t late = 40; late < values.size(); ++late) values[late] -= 2.0;
    const auto change = change_point(values, 0.05);
    near += change && *change >= 37 && *change <= 43 ? 1 : 0;
  }
  EXPECT_GE(near, 180);
}

}  // namespace
}  // namespace moetune
