// Experts chosen by somebody else: the weights stay the router's own, wrong ids are refused, and nothing else
// changes.
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

struct Answer {
  std::vector<float> logits;
  Routing routing;
};

Answer answer_of(Engine& engine, const Golden& model, std::size_t chunk) {
  Answer answer;
  record_routing(engine, answer.routing);
  answer.logits = teacher_forced(engine, model.ids, chunk);
  engine.observe_routing({});
  return answer;
}

class ForcedRouting : public ::testing::TestWithParam<std::string> {};

TEST_P(ForcedRouting, TheRoutersOwnChoiceChangesNoBit) {
  const Golden model = golden(GetParam());
  Engine engine = engine_over(model);
  const Answer free = answer_of(engine, model, model.ids.size());
  replay_routing(engine, free.routing);
  const Answer at_once = answer_of(engine, model, model.ids.size());
  expect_identical(at_once.logits, free.logits, "all at once");
  EXPECT_EQ(at_once.routing.ids, free.routing.ids);
  EXPECT_EQ(at_once.routing.weights, free.routing.weights);

  engine.force_routing({});
  expect_identical(answer_of(engine, model, model.ids.size()).logits, free.logits, "free again");
}

// The order of the experts changes the order of their weights and of a sum, nothing else.
TEST_P(ForcedRouting, OtherExpertsGetTheScoresTheyHave) {
  const Golden model = golden(GetParam());
  Engine engine = engine_over(model);
  const Answer free = answer_of(engine, model, model.ids.size());
  Routing turned = free.routing;
  const auto k = static_cast<std::size_t>(turned.k);
  for (auto& [layer, ids] : turned.ids)
    for (auto token = ids.begin(); token != ids.end(); token += static_cast<std::ptrdiff_t>(k))
      std::reverse(token, token + static_cast<std::ptrdiff_t>(k));
  replay_routing(engine, turned);
  const Answer reversed = answer_of(engine, model, model.ids.size());
  EXPECT_EQ(reversed.routing.ids, turned.ids);
  EXPECT_LE(largest_difference(reversed.logits, free.logits), 1e-4);
  const int first_layer = free.routing.ids.begin()->first;  // its inputs are the same in both runs
  for (std::size_t i = 0; i < k; ++i)
    EXPECT_NEAR(reversed.routing.weights.at(first_layer)[k - 1 - i], free.routing.weights.at(first_layer)[i],
                1e-6)
        << i;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ForcedRouting, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

TEST(ForcedExperts, ReachEveryRank) {
  const Golden model = golden("tiny_moe");
  Engine one = engine_over(model);
  Engine two = engine_over(model, {{"tensor_parallel", "2"}});
  const auto last_experts = [&](int, std::span<std::int32_t> ids, int tokens, int k) {
    const int experts = spec_of(*model.checkpoint).experts;
    for (int i = 0; i < tokens * k; ++i) ids[static_cast<std::size_t>(i)] = experts - 1 - i % k;
  };
  const std::vector<float> free = teacher_forced(one, model.ids, model.ids.size());
  one.force_routing(last_experts);
  two.force_routing(last_experts);
  const std::vector<float> forced = teacher_forced(one, model.ids, model.ids.size());
  EXPECT_GT(largest_difference(forced, free), 0.1);
  EXPECT_LE(largest_difference(teacher_forced(two, model.ids, model.ids.size()), forced), 1e-3);
}

TEST(ForcedExperts, ThatDoNotExistOrStandTwiceAreRefused) {
  const Golden model = golden("mixtral");
  Engine engine = engine_over(model);
  const auto complaint = [&](std::int32_t first, std::int32_t second) {
    engine.force_routing([=](int, std::span<std::int32_t> ids, int, int k) {
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i) % k;
      ids[0] = first;
      ids[1] = second;
    });
    return message_of<InputError>([&] { engine.forward(step_of(model.ids, 0, 2)); });
  };
  EXPECT_TRUE(has_text(complaint(-2, 0), "layer 0, token 0 of the step: expert -2 (accepted: -1 .. "))
      << "-1 is no expert, as a dropped one";
  EXPECT_TRUE(has_text(complaint(0, 1000), "expert 1000"));
  EXPECT_TRUE(has_text(complaint(1, 1), "expert 1 twice"));
  engine.force_routing({});
  EXPECT_EQ(teacher_forced(engine, model.ids, model.ids.size()).size(), model.logits.size())
      << "usable again";
}

}  // namespace
}  // namespace moetune::testing
