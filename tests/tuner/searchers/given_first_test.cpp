// Given configurations come first, each once; then the other searcher, which learns from them.
#include "tuner/searchers/given_first.h"

#include <gtest/gtest.h>

#include "tests/tuner/support/tune_fixture.h"

namespace moetune {
namespace {

Trial told(const Configuration& configuration) {
  Trial trial;
  trial.configuration = configuration;
  return trial;
}

TEST(GivenFirst, AsksForTheGivenOnesOnceThenForWhatFollows) {
  auto then = std::make_unique<ListSearcher>(std::vector<Configuration>{with_top_k(3)});
  const ListSearcher& follower = *then;
  GivenFirstSearcher searcher({with_top_k(8), with_top_k(7), with_top_k(7), with_top_k(6)}, std::move(then));
  searcher.tell(told(with_top_k(8)));  // the default configuration was measured before
  for (const int expected : {7, 6, 3}) {
    const auto asked = searcher.ask();
    ASSERT_TRUE(asked);
    EXPECT_EQ(*asked, with_top_k(expected));
    searcher.tell(told(*asked));
  }
  EXPECT_FALSE(searcher.ask());
  EXPECT_EQ(follower.told.size(), 4U) << "it learns from the given ones too";
}

TEST(GivenFirst, EndsAfterThemWhereNothingFollows) {
  GivenFirstSearcher searcher({with_top_k(7)}, nullptr);
  EXPECT_TRUE(searcher.ask());
  EXPECT_FALSE(searcher.ask());
}

}  // namespace
}  // namespace moetune
