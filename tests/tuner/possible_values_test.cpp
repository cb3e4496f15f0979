// Values that no measurement can have come to are refused by their place.
#include "tuner/possible_values.h"

#include <gtest/gtest.h>

#include "tuner/problems.h"

namespace moetune {
namespace {

std::vector<std::string> problems_of(const std::string& metric, const Measurement& measurement) {
  const ProblemList problems;
  check_possible({{metric, measurement}}, "f.json: evidence");
  return problems.messages();
}

Measurement value(double value, std::optional<double> low = {}, std::optional<double> high = {}) {
  Measurement measurement;
  measurement.value = value;
  measurement.low = low;
  measurement.high = high;
  return measurement;
}

TEST(PossibleValues, TimesSizesAndSharesHaveTheirRange) {
  EXPECT_EQ(problems_of("tpot_ms", value(-3.0)),
            std::vector<std::string>{"f.json: evidence.tpot_ms.value: -3 (accepted: 0 or more)"});
  EXPECT_EQ(problems_of("top1_agreement", value(1.5)),
            std::vector<std::string>{"f.json: evidence.top1_agreement.value: 1.5 (accepted: 0 to 1)"});
  EXPECT_EQ(problems_of("device_bytes", value(-1.0)).size(), 1U);
  EXPECT_EQ(problems_of("tpot_ms", value(3.0, -1.0, 4.0)).size(), 1U);
  Measurement p99 = value(3.0);
  p99.p99 = -1.0;
  EXPECT_EQ(problems_of("tpot_ms", p99).size(), 1U);
}

TEST(PossibleValues, WhatMayBeBelowZeroOrAboveOneIs) {
  EXPECT_TRUE(problems_of("tax_unexplained_ms", value(-0.1)).empty());
  EXPECT_TRUE(problems_of("output_snr_db", value(-7.0)).empty());
  EXPECT_TRUE(problems_of("tax_share", value(1.02)).empty());
  EXPECT_TRUE(problems_of("router_mass", value(1.0000000312, 1.0, 1.0)).empty()) << "a sum of shares";
  EXPECT_TRUE(problems_of("of_somebody_else", value(-1.0)).empty());
}

TEST(PossibleValues, AValueLiesWithinItsOwnInterval) {
  EXPECT_TRUE(problems_of("tpot_ms", value(3.0, 3.0, 3.0)).empty());
  EXPECT_TRUE(problems_of("tpot_ms", value(3.0, 2.9, 3.1)).empty());
  ASSERT_EQ(problems_of("tpot_ms", value(3.2, 2.9, 3.1)).size(), 1U);
  EXPECT_NE(problems_of("tpot_ms", value(3.2, 2.9, 3.1))[0].find("within its own interval, 2.9 to 3.1"),
            std::string::npos);
}

}  // namespace
}  // namespace moetune
