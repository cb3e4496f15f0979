// How a night's measuring is cut into passes.
#include "tuner/commands/tonight.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(NightlyLimits, OnePassForEachSecondBetweenTwentyAndSixty) {
  EXPECT_EQ(nightly_limits(60.0).passes, 60);
  EXPECT_EQ(nightly_limits(35.0).passes, 35);
  EXPECT_EQ(nightly_limits(2.0).passes, usual_passes);
  EXPECT_EQ(nightly_limits(900.0).passes, 60);
  for (const double seconds : {2.0, 60.0, 900.0}) {
    EXPECT_EQ(nightly_limits(seconds).fewest, usual_passes) << "as many as the profile's own round";
    EXPECT_EQ(nightly_limits(seconds).seconds, 2.0 * seconds)
        << "starting processes takes no longer than measuring";
    EXPECT_EQ(times_measured(seconds), static_cast<double>(nightly_limits(seconds).passes) + 1.0);
  }
}

}  // namespace
}  // namespace moetune
