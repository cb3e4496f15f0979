// How far a whole result is off.
#pragma once

#include <cmath>
#include <span>

#include <gtest/gtest.h>

namespace moetune::testing {

// |actual - expected| / |expected|; NaN, which no comparison accepts, where one of them is NaN.
inline double relative_error(std::span<const float> actual, std::span<const float> expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0.0;
  double size = 1e-30;  // equal to nothing but zeros: 0
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(actual[i]) - static_cast<double>(expected[i]), 2.0);
    size += std::pow(static_cast<double>(expected[i]), 2.0);
  }
  return std::sqrt(difference / size);
}

}  // namespace moetune::testing
