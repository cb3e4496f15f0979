// Suggestions for mistyped words.
#include "tuner/commands/nearest.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(Nearest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("budget", "budget"), 0);
  EXPECT_EQ(edit_distance("budgte", "budget"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("bugdet", "budget"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", ""), 3);
}

TEST(Nearest, SuggestsOnlyWhatIsClose) {
  const std::vector<std::string> flags = {"--budget", "--gate", "--seed", "--searcher"};
  EXPECT_EQ(nearest("--bugdet", flags), "--budget");
  EXPECT_EQ(nearest("--sed", flags), "--seed");
  EXPECT_EQ(nearest("--sercher", flags), "--searcher");
  EXPECT_EQ(nearest("--temperature", flags), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), "");
}

}  // namespace
}  // namespace moetune
