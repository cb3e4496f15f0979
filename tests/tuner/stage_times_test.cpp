// A trial that ran out of time says what took it.
#include "tuner/stage_times.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(StageTimes, CountsOfAStageAreNotStagesOfTheirOwn) {
  EXPECT_EQ(stage_of("accuracy, position 17"), "accuracy");
  EXPECT_EQ(stage_of("timing, run 2 of about 3"), "timing");
  EXPECT_EQ(stage_of("loading, to score accuracy"), "loading, to score accuracy");
  EXPECT_EQ(stage_of("loading"), "loading");
}

TEST(StageTimes, NamesEachStageThatTookTime) {
  StageTimes times;
  EXPECT_EQ(times.text(1.0), "");
  times.begin("loading, to score accuracy", 100.0);
  EXPECT_EQ(times.text(130.0), "") << "one stage is what it was at, which is said anyway";
  times.begin("accuracy, position 1", 121.4);
  times.begin("accuracy, position 17", 122.0);
  times.begin("a moment", 134.0);
  times.begin("loading", 134.1);
  times.begin("warming up, run 1", 155.0);
  EXPECT_EQ(times.text(160.0),
            "loading, to score accuracy (21.4 s), accuracy (12.6 s), loading (20.9 s), warming up (5 s)");
}

}  // namespace
}  // namespace moetune
