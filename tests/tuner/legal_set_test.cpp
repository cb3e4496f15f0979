#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/counter_rng.h"
#include "tuner/search_space.h"

namespace moetune {
namespace {

Parameter numbers(const std::string& name, int count) {
  Parameter parameter{name, Parameter::Kind::ordinal, {}, {}, ""};
  for (int i = 0; i < count; ++i) parameter.values.push_back(std::to_string(i));
  return parameter;
}

SearchSpace space_of(std::vector<Parameter> parameters) {
  SearchSpace space;
  space.name = "test";
  space.parameters = std::move(parameters);
  return space;
}

void expect_adds_up(const LegalSet& legal) {
  std::uint64_t removed = 0;
  for (const auto& [reason, count] : legal.removed) removed += count;
  EXPECT_EQ(legal.examined, legal.ranks.size() + legal.merged + removed);
}

TEST(LegalSet, CountsWhatTheHardwareRemoves) {
  SearchSpace space =
      space_of({numbers("top_k", 4), {"router", Parameter::Kind::categorical, {"gpu", "cpu"}, {}, ""}});
  space.constraints = {{{{"top_k", {"0"}}}, "no expert at all"}};
  const LegalSet legal =
      legal_configurations(space, [](const Configuration& configuration) -> std::optional<std::string> {
        if (configuration.values.at("router") == "gpu") return "router=gpu needs a GPU";
        return std::nullopt;
      });
  EXPECT_EQ(legal.ranks, (std::vector<std::uint64_t>{3, 5, 7}));
  EXPECT_EQ(legal.declared, 8U);
  EXPECT_FALSE(legal.sampled);
  EXPECT_EQ(legal.removed, (std::vector<std::pair<std::string, std::uint64_t>>{{"router=gpu needs a GPU", 3},
                                                                               {"no expert at all", 2}}));
  expect_adds_up(legal);
}

TEST(LegalSet, TheDefaultIsCountedOnceWhetherItIsOfTheSpaceOrNot) {
  const SearchSpace space = space_of({numbers("top_k", 4)});
  const LegalSet legal =
      legal_configurations(space, [](const Configuration& configuration) -> std::optional<std::string> {
        if (configuration.values.at("top_k") == "0") return "no expert at all";
        return std::nullopt;
      });
  EXPECT_EQ(count_with(legal, space, {{{"top_k", "2"}}}), 3);
  EXPECT_EQ(count_with(legal, space, {{{"top_k", "0"}}}), 4) << "of the space, but not legal";
  EXPECT_EQ(count_with(legal, space, {{{"top_k", "9"}}}), 4);
}

// The plainest enumeration: canonicalise every configuration, keep each once.
std::vector<std::uint64_t> by_brute_force(const SearchSpace& space) {
  std::set<std::uint64_t> ranks;
  for (std::uint64_t rank = 0; rank < space.declared_size(); ++rank) {
    const Configuration canonical = space.canonical(space.at(rank));
    if (!space.objection(canonical)) ranks.insert(space.rank_of(canonical));
  }
  return {ranks.begin(), ranks.end()};
}

TEST(LegalSet, EqualsBruteForceOnRandomSpaces) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    RngSequence random(CounterRng(seed, RngStage::space_sample, 7));
    SearchSpace space;
    const auto count = 1 + random.below(5);
    for (std::uint64_t p = 0; p < count; ++p) {
      Parameter parameter = numbers("p" + std::to_string(p), static_cast<int>(1 + random.below(4)));
      if (p > 0 && random.below(2) == 0) {
        const Parameter& watched = space.parameters[random.below(p)];
        parameter.active_if = {{watched.name, {watched.values[random.below(watched.values.size())]}}};
        parameter.when_inactive = parameter.values[random.below(parameter.values.size())];
      }
      space.parameters.push_back(parameter);
    }
    for (std::uint64_t c = random.below(3); c-- > 0;) {
      Constraint constraint{{}, "constraint " + std::to_string(c)};
      for (std::uint64_t i = 1 + random.below(2); i-- > 0;) {
        const Parameter& parameter = space.parameters[random.below(count)];
        constraint.forbidden.push_back(
            {parameter.name, {parameter.values[random.below(parameter.values.size())]}});
      }
      space.constraints.push_back(constraint);
    }
    const std::vector<std::uint64_t> expected = by_brute_force(space);
    if (expected.empty()) {
      EXPECT_THROW(legal_configurations(space, {}), NoFeasibleConfiguration);
      continue;
    }
    const LegalSet legal = legal_configurations(space, {});
    EXPECT_EQ(legal.ranks, expected) << "seed " << seed;
    EXPECT_EQ(legal.examined, legal.declared);
    expect_adds_up(legal);
  }
}

TEST(LegalSet, SaysWhyNothingIsLeft) {
  const SearchSpace space = space_of({numbers("a", 3), numbers("b", 4)});
  const std::string message = message_of<NoFeasibleConfiguration>([&] {
    legal_configurations(space, [](const Configuration& configuration) -> std::optional<std::string> {
      return configuration.values.at("a") == "0" ? "needs 3 MB more: lower a" : "needs a GPU";
    });
  });
  EXPECT_EQ(message,
            "space 'test': none of its 12 configurations can run here: needs a GPU (8 configurations); "
            "needs 3 MB more: lower a (4 configurations)");
}

TEST(LegalSet, FoldsManyDistinctObjections) {
  const SearchSpace space = space_of({numbers("a", 50), numbers("b", 20)});
  const LegalSet legal =
      legal_configurations(space, [](const Configuration& configuration) -> std::optional<std::string> {
        if (configuration.values.at("a") == "7") return std::nullopt;
        return configuration.key();
      });
  EXPECT_EQ(legal.ranks.size(), 20U);
  EXPECT_EQ(legal.removed.size(), 256U);
  EXPECT_EQ(legal.removed.front(), (std::pair<std::string, std::uint64_t>{"other reasons", 980 - 255}));
  expect_adds_up(legal);
}

TEST(LegalSet, EnumeratesAMillion) {
  std::vector<Parameter> parameters;
  for (int p = 0; p < 10; ++p) parameters.push_back(numbers("parameter_" + std::to_string(p), 4));
  SearchSpace space = space_of(parameters);
  space.constraints = {{{{"parameter_0", {"1"}}, {"parameter_9", {"2"}}}, "constraint"}};
  ASSERT_EQ(space.declared_size(), largest_enumerated_space);
  const LegalSet legal =
      legal_configurations(space, [](const Configuration& configuration) -> std::optional<std::string> {
        if (configuration.values.at("parameter_3") == "1") return "cheap objection";
        return std::nullopt;
      });
  EXPECT_EQ(legal.ranks.size(), largest_enumerated_space * 15 / 16 * 3 / 4);
  EXPECT_FALSE(legal.sampled);
}

TEST(LegalSet, SamplesALargerSpaceTheSameWayEveryTime) {
  std::vector<Parameter> parameters;
  for (int p = 0; p < 12; ++p) parameters.push_back(numbers("p" + std::to_string(p), 6));
  parameters[5].active_if = {{"p0", {"1"}}};
  parameters[5].when_inactive = "3";
  const SearchSpace space = space_of(parameters);
  ASSERT_GT(space.declared_size(), largest_enumerated_space);
  const auto objection = [](const Configuration& configuration) -> std::optional<std::string> {
    if (configuration.values.at("p1") == "0") return "p1=0 is impossible";
    return std::nullopt;
  };
  const LegalSet legal = legal_configurations(space, objection);
  EXPECT_TRUE(legal.sampled);
  EXPECT_EQ(legal.examined, sampled_draws);
  EXPECT_EQ(legal.ranks, legal_configurations(space, objection).ranks);
  EXPECT_TRUE(std::is_sorted(legal.ranks.begin(), legal.ranks.end()));
  EXPECT_EQ(std::adjacent_find(legal.ranks.begin(), legal.ranks.end()), legal.ranks.end());
  EXPECT_NEAR(static_cast<double>(legal.ranks.size()), static_cast<double>(sampled_draws) * 5 / 6, 1000);
  for (std::size_t i = 0; i < legal.ranks.size(); i += 97) {
    const Configuration configuration = space.at(legal.ranks[i]);
    EXPECT_EQ(space.canonical(configuration), configuration);
    EXPECT_NE(configuration.values.at("p1"), "0");
  }
  expect_adds_up(legal);
}

}  // namespace
}  // namespace moetune
