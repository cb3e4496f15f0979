#include "tuner/searchers/sobol.h"

#include <map>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/small_study.h"

namespace moetune {
namespace {

SearchSpace grid(int parameters, int values) {
  SearchSpace space;
  space.name = "grid";
  for (int p = 0; p < parameters; ++p) {
    Parameter parameter{"p" + std::to_string(p), Parameter::Kind::ordinal, {}, {}, ""};
    for (int v = 0; v < values; ++v) parameter.values.push_back(std::to_string(v));
    space.parameters.push_back(parameter);
  }
  return space;
}

TEST(SobolSearcher, VisitsEveryValueEquallyOften) {
  const SearchSpace space = grid(3, 8);
  const LegalSet legal = legal_configurations(space, {});
  const auto objectives = objectives_named("tpot_ms");
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SobolSearcher searcher({space, legal, objectives, seed});
    std::map<std::string, int> counts;
    for (int i = 0; i < 64; ++i) {
      const auto configuration = searcher.ask();
      for (const auto& [name, value] : configuration->values) ++counts[name + "=" + value];
    }
    ASSERT_EQ(counts.size(), 24U);
    // Exactly 8 each were it not for the few points that fall on a configuration already asked.
    for (const auto& [what, count] : counts) EXPECT_NEAR(count, 8, 3) << what << ", seed " << seed;
  }
}

TEST(SobolSearcher, SpreadsOverWhatTheHardwareLeft) {
  // Only one router is legal: no point is wasted on the other.
  SmallStudy study;
  const LegalSet legal =
      legal_configurations(study.space, [](const Configuration& configuration) -> std::optional<std::string> {
        if (configuration.values.at("router") == "gpu") return "no GPU";
        return std::nullopt;
      });
  SobolSearcher searcher({study.space, legal, study.objectives, 1});
  std::map<std::string, int> counts;
  for (int i = 0; i < 48; ++i) {
    const auto configuration = searcher.ask();
    EXPECT_EQ(configuration->values.at("router"), "cpu");
    ++counts[configuration->values.at("top_k")];
  }
  EXPECT_EQ(counts.size(), 8U);
}

TEST(SobolSearcher, SaysWhenASpaceHasTooManyParameters) {
  const SearchSpace space = grid(33, 2);
  const LegalSet legal = legal_configurations(space, {});
  EXPECT_TRUE(has_text(message_of<InputError>([&] { SobolSearcher({space, legal, {}, 1}); }),
                       "varies 33 parameters (accepted: at most 32 with sobol and nsga2)"));
}

}  // namespace
}  // namespace moetune
