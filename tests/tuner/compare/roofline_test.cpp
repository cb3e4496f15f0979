#include "tuner/compare/roofline.h"

#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Roofline, TheFloorIsBytesOverRates) {
  EXPECT_DOUBLE_EQ(floor_ms({.memory = 4e9, .link = 0.0}, {.memory_gb_per_s = 4000.0, .link_gb_per_s = 50.0}),
                   1.0);
  EXPECT_DOUBLE_EQ(floor_ms({.memory = 4e9, .link = 1e8}, {.memory_gb_per_s = 4000.0, .link_gb_per_s = 50.0}),
                   3.0);
  EXPECT_DOUBLE_EQ(floor_ms({.memory = 1e9, .link = 1e9}, {.memory_gb_per_s = 20.0}), 100.0)
      << "without a link all comes from memory";
}

TEST(Roofline, EachNumberFormatReachesItsOwnShare) {
  const std::vector<RooflinePoint> points = {
      {"bf16", 1.0, 2.0}, {"bf16", 2.0, 4.0}, {"int4", 1.0, 4.0}, {"int4", 2.0, 8.0}};
  const auto roofline = fit_roofline(points);
  ASSERT_TRUE(roofline);
  EXPECT_DOUBLE_EQ(predicted_ms(*roofline, "bf16", 3.0), 6.0);
  EXPECT_DOUBLE_EQ(predicted_ms(*roofline, "int4", 3.0), 12.0);
  EXPECT_DOUBLE_EQ(predicted_ms(*roofline, "fp8", 3.0), 3.0 / 0.375)
      << "what was not measured takes the median of all";
  EXPECT_EQ(roofline->held_out, 2U);
  EXPECT_DOUBLE_EQ(roofline->median_error, 0.0);
  EXPECT_DOUBLE_EQ(roofline->worst_error, 0.0);
}

TEST(Roofline, TheErrorIsOfTrialsItWasNotFittedTo) {
  // Fitted to the first and third (share 0.5), judged on the second (predicted 2, measured 2.5) and fourth (2
  // of 1.6).
  const std::vector<RooflinePoint> points = {
      {"bf16", 1.0, 2.0}, {"bf16", 1.0, 2.5}, {"bf16", 1.0, 2.0}, {"bf16", 1.0, 1.6}};
  const auto roofline = fit_roofline(points);
  ASSERT_TRUE(roofline);
  EXPECT_EQ(roofline->held_out, 2U);
  EXPECT_NEAR(roofline->worst_error, 0.25, 1e-12);
  EXPECT_NEAR(roofline->median_error, (0.2 + 0.25) / 2.0, 1e-12);
}

TEST(Roofline, NothingToGoByIsSaid) {
  EXPECT_FALSE(fit_roofline(std::vector<RooflinePoint>{}));
  EXPECT_FALSE(fit_roofline(std::vector<RooflinePoint>{{"bf16", 0.0, 1.0}}));
  EXPECT_EQ(fit_roofline(std::vector<RooflinePoint>{{"bf16", 1.0, 1.0}})->held_out, 0U);
}

}  // namespace
}  // namespace moetune
