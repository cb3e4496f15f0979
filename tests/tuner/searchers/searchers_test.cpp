// What every searcher promises: each legal configuration at most once, all of them in the end, the same again
// after a resume. What one of them promises beyond that is in nsga2_test.cpp and sobol_test.cpp.
#include <set>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/small_study.h"
#include "tuner/counter_rng.h"

namespace moetune {
namespace {

struct SearcherTest : testing::TestWithParam<std::string> {
  SmallStudy study;
  std::unique_ptr<Searcher> searcher(std::uint64_t seed = 1) const {
    return study.searcher(GetParam(), seed);
  }
};
INSTANTIATE_TEST_SUITE_P(All, SearcherTest, testing::ValuesIn(searcher_names()),
                         [](const auto& made) { return made.param; });

TEST_P(SearcherTest, ProposesEveryLegalConfigurationOnceAndThenNothing) {
  const auto under_test = searcher();
  std::set<std::uint64_t> asked;
  for (std::size_t i = 0; i < study.legal.ranks.size(); ++i) {
    const auto configuration = under_test->ask();
    ASSERT_TRUE(configuration.has_value()) << "after " << i;
    EXPECT_TRUE(asked.insert(study.space.rank_of(*configuration)).second) << configuration->key();
    under_test->tell(study.measured(*configuration, static_cast<std::int64_t>(i)));
  }
  EXPECT_EQ(std::vector<std::uint64_t>(asked.begin(), asked.end()), study.legal.ranks);
  EXPECT_FALSE(under_test->ask().has_value());
  EXPECT_FALSE(under_test->ask().has_value());
}

TEST_P(SearcherTest, NeedsNoAnswerBeforeTheNextQuestion) {
  const auto under_test = searcher();
  std::set<std::uint64_t> asked;
  while (const auto configuration = under_test->ask())
    EXPECT_TRUE(asked.insert(study.space.rank_of(*configuration)).second);
  EXPECT_EQ(asked.size(), study.legal.ranks.size());
}

TEST_P(SearcherTest, NeverAsksWhatItWasTold) {
  const auto under_test = searcher();
  const Configuration told = study.space.at(study.legal.ranks[7]);
  under_test->tell(study.measured(told, 0));
  while (const auto configuration = under_test->ask()) {
    EXPECT_NE(*configuration, told);
    if (*configuration == told) break;
  }
}

TEST_P(SearcherTest, NeverAsksWhatItWasToldInAnotherSpelling) {
  // With everything resident the policy does not matter: the default configuration may name either.
  const auto under_test = searcher();
  Configuration told = study.space.at(study.legal.ranks[0]);
  told.values["expert_cache"] = "1";
  told.values["cache_policy"] = "lfu";
  const Configuration canonical = study.space.canonical(told);
  ASSERT_NE(told, canonical);
  under_test->tell(study.measured(told, 0));
  while (const auto configuration = under_test->ask()) ASSERT_NE(*configuration, canonical);
}

TEST_P(SearcherTest, TakesTrialsOfForeignConfigurations) {
  // The default configuration may lie between the declared values, or name more knobs than the space has.
  const auto under_test = searcher();
  Configuration between = study.space.at(study.legal.ranks[0]);
  between.values["expert_cache"] = "0.83";
  Configuration more = between;
  more.values["prefetch"] = "none";
  for (const Configuration& foreign : {between, more, Configuration{}})
    under_test->tell(study.measured(foreign, 0));
  std::size_t count = 0;
  while (under_test->ask()) ++count;
  EXPECT_EQ(count, study.legal.ranks.size());
}

TEST_P(SearcherTest, ContinuesIdenticallyAfterEveryPrefix) {
  const std::vector<Trial> undisturbed = study.run(*searcher(), 60);
  for (std::size_t prefix = 0; prefix < undisturbed.size(); ++prefix) {
    const auto resumed = searcher();
    resumed->tell(undisturbed[0]);  // the default configuration comes first and is not asked for
    for (std::size_t i = 1; i < undisturbed.size(); ++i) {
      const auto configuration = resumed->ask();
      ASSERT_TRUE(configuration.has_value());
      ASSERT_EQ(*configuration, undisturbed[i].configuration) << "trial " << i << " after " << prefix;
      // Up to the prefix the log answers, after it the machine does again.
      resumed->tell(i < prefix ? undisturbed[i]
                               : study.measured(*configuration, static_cast<std::int64_t>(i)));
    }
  }
}

TEST_P(SearcherTest, TheSameTwiceAndAnotherSeedAnotherOrder) {
  const auto keys = [&](std::uint64_t seed) {
    std::vector<std::string> found;
    for (const Trial& trial : study.run(*searcher(seed), 40)) found.push_back(trial.configuration.key());
    return found;
  };
  EXPECT_EQ(keys(1), keys(1));
  if (GetParam() == "exhaustive") {
    EXPECT_EQ(keys(1), keys(2));
  } else {
    EXPECT_NE(keys(1), keys(2));
  }
}

TEST_P(SearcherTest, CopesWithOneConfigurationAndWithFailuresOnly) {
  LegalSet one = study.legal;
  one.ranks = {study.legal.ranks[3]};
  const auto single = make_searcher(GetParam(), {study.space, one, study.objectives, 1});
  EXPECT_EQ(single->ask(), study.space.at(one.ranks[0]));
  EXPECT_FALSE(single->ask().has_value());

  const auto failing = searcher();
  std::size_t count = 0;
  while (const auto configuration = failing->ask()) {
    Trial trial;
    trial.configuration = *configuration;
    trial.outcome = Outcome::out_of_memory;
    failing->tell(trial);
    ++count;
  }
  EXPECT_EQ(count, study.legal.ranks.size());
}

TEST_P(SearcherTest, WorksOnASampledTable) {
  LegalSet sparse = study.legal;
  sparse.sampled = true;
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < sparse.ranks.size(); i += 5) kept.push_back(sparse.ranks[i]);
  sparse.ranks = kept;
  const auto under_test = make_searcher(GetParam(), {study.space, sparse, study.objectives, 1});
  std::set<std::uint64_t> asked;
  while (const auto configuration = under_test->ask()) {
    asked.insert(study.space.rank_of(*configuration));
    under_test->tell(study.measured(*configuration, 0));
  }
  EXPECT_EQ(std::vector<std::uint64_t>(asked.begin(), asked.end()), kept);
}

TEST(MakeSearcher, NamesTheAcceptedOnes) {
  const SmallStudy study;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { study.searcher("bayes", 1); }),
                       "--searcher: no searcher named 'bayes' (accepted: random, sobol, exhaustive, nsga2)"));
}

TEST(RandomSearcher, OrderSurvivesAShrinkingLegalSet) {
  const SmallStudy study;
  LegalSet half = study.legal;
  half.ranks.resize(half.ranks.size() / 2);
  const std::set<std::uint64_t> kept(half.ranks.begin(), half.ranks.end());
  std::vector<std::string> of_all;
  std::vector<std::string> of_half;
  const auto all_searcher = study.searcher("random", 3);
  while (const auto configuration = all_searcher->ask())
    if (kept.count(study.space.rank_of(*configuration)) == 1) of_all.push_back(configuration->key());
  const auto half_searcher = make_searcher("random", {study.space, half, study.objectives, 3});
  while (const auto configuration = half_searcher->ask()) of_half.push_back(configuration->key());
  EXPECT_EQ(of_all, of_half);
}

TEST(ExhaustiveSearcher, GoesByRank) {
  const SmallStudy study;
  const auto searcher = study.searcher("exhaustive", 1);
  for (const std::uint64_t rank : study.legal.ranks) EXPECT_EQ(searcher->ask(), study.space.at(rank));
}

}  // namespace
}  // namespace moetune
