// What top_k_rule and reroute_margin do to a choice: exact cases by hand, then the same through the engine.
#include "engine/route_changes.h"
#include "kernels/change_route.h"

#include <cmath>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/forced_routing.h"
#include "tests/support/golden.h"
#include "tests/support/tensors.h"

namespace moetune::testing {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(TopKRuleText, IsReadAsTheKnobWritesIt) {
  EXPECT_EQ(TopKRule::of("static").threshold, 0.0);
  EXPECT_FALSE(TopKRule::of("static").per_layer);
  EXPECT_EQ(TopKRule::of("threshold:0.25").threshold, 0.25);
  EXPECT_TRUE(TopKRule::of("per_layer").per_layer);
}

// 0.25 is exact in binary: at the threshold an expert stays.
TEST(Threshold, DropsWhatIsBelowAShareOfTheLargestWeight) {
  Ids ids{3, 1, 2, 0, 5, 4};
  const std::vector<float> weights{0.5F,  0.125F, 0.0625F,
                                   0.25F, 1.0F,   0.249F};  // the second token's largest is in the middle
  EXPECT_TRUE(drop_below(0.25, ids, weights, 3));
  EXPECT_EQ(ids, (Ids{3, 1, -1, 0, 5, -1}));
  Ids all{1, 2};
  EXPECT_FALSE(drop_below(1.0, all, std::vector<float>{0.5F, 0.5F}, 2));
  EXPECT_EQ(all, (Ids{1, 2}));
}

TEST(PerLayer, KeepsTheFirstOfEveryToken) {
  Ids ids{3, 1, 2, 0, 5, 4};
  EXPECT_FALSE(drop_beyond(3, ids, 3));
  EXPECT_TRUE(drop_beyond(1, ids, 3));
  EXPECT_EQ(ids, (Ids{3, -1, -1, 0, -1, -1}));
}

TEST(PerLayer, GivesPlacesWhereTheyHoldMost) {
  const std::vector<double> mass{0.9, 0.06, 0.04,  // a router that is sure of itself
                                 0.4, 0.35, 0.25,  // one that is not
                                 0.5, 0.3,  0.2};
  EXPECT_EQ(experts_of_layers(mass, 3, 3), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(experts_of_layers(mass, 3, 6), (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(experts_of_layers(mass, 3, 9), (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(experts_of_layers(std::vector<double>{0.5, 0.5, 0.5, 0.5}, 2, 3), (std::vector<int>{2, 1}))
      << "equals: the earlier layer";
}

class Reroute : public ::testing::Test {
 protected:
  // Sigmoid scores 0.8, 0.5, 0.76, 0.2, 0.75.
  std::vector<float> logits{logit(0.8), logit(0.5), logit(0.76), logit(0.2), logit(0.75)};
  Route sigmoid{.logits = {}, .ids = {}, .weights = {}, .rule = RouteRule::grouped_sigmoid_bias};
  static float logit(double p) { return static_cast<float>(std::log(p / (1.0 - p))); }
  Ids rerouted(double margin, const Ids& slots, Ids ids, int k = 2) {
    reroute(margin, sigmoid, logits, slots, ids, k);
    return ids;
  }
};

TEST_F(Reroute, ReplacesAMissingExpertByAResidentOneWithinTheMargin) {
  const Ids slots{-1, 0, -1, 1, 2};  // 1, 3 and 4 are there
  EXPECT_EQ(rerouted(0.05, slots, {0, 2}), (Ids{0, 4})) << "0.75 is below 0.95 x 0.8 and above 0.95 x 0.76";
  EXPECT_EQ(rerouted(0.10, slots, {0, 2}), (Ids{4, 2}))
      << "nobody is chosen twice: the next resident one is too far below";
  EXPECT_EQ(rerouted(0.40, slots, {0, 2}), (Ids{4, 1}));
  EXPECT_EQ(rerouted(0.0, slots, {0, 2}), (Ids{0, 2}));
  EXPECT_EQ(rerouted(1.0, slots, {4, 1}), (Ids{4, 1})) << "resident ones stay";
}

TEST_F(Reroute, TakesAnExpertThatIsFetchedAnywayForResident) {
  const std::vector<float> first = logits;
  logits.insert(logits.end(), first.begin(), first.end());
  logits[5] = logit(0.81);  // the second token likes expert 0 as well
  Ids ids{0, 2};
  EXPECT_EQ(reroute(0.05, sigmoid, logits, Ids{-1, -1, -1, -1, -1}, ids, 1), 1);
  EXPECT_EQ(ids, (Ids{0, 0})) << "0 could not be replaced, so it comes in and may take 2's place";
}

TEST_F(Reroute, LeavesDroppedPlacesAlone) {
  EXPECT_EQ(rerouted(1.0, {0, 0, 0, 0, 0}, {0, -1}), (Ids{0, -1}));
}

// What is compared is what the router chooses by: bias and groups included.
TEST_F(Reroute, ComparesWithTheSelectionBiasWithinTheKeptGroups) {
  const OwnedTensor bias = filled({5}, [](std::int64_t expert) {
    return expert == 1 ? 0.3F : expert == 4 ? -0.7F : 0.0F;
  });
  sigmoid.bias = bias.view();
  EXPECT_EQ(rerouted(0.01, {-1, 0, -1, 1, 2}, {0}, 1), (Ids{1})) << "0.5 + 0.3 is as good as 0.8";
  logits.push_back(logit(0.01));
  sigmoid.bias = {};
  sigmoid.groups = 3;  // {0.8, 0.5}, {0.76, 0.2}, {0.75, 0.01}
  sigmoid.kept_groups = 1;
  EXPECT_EQ(rerouted(0.3, {-1, -1, 0, 0, 0, 0}, {0}, 1), (Ids{0}))
      << "all that are there are in groups left out";
  EXPECT_EQ(rerouted(0.5, {-1, 0, 0, 0, 0, 0}, {0}, 1), (Ids{1}));
}

// --- through the engine ---

Routing routing_of(Engine& engine, std::span<const std::int32_t> ids, std::vector<float>* logits = nullptr) {
  Routing routing;
  record_routing(engine, routing);
  const std::vector<float> found = teacher_forced(engine, ids, 1);
  engine.observe_routing({});
  if (logits != nullptr) *logits = found;
  return routing;
}

std::int64_t count_of(const Routing& routing, std::int32_t id) {
  std::int64_t count = 0;
  for (const auto& [layer, ids] : routing.ids) count += std::ranges::count(ids, id);
  return count;
}

class RoutingRules : public ::testing::TestWithParam<const char*> {
 protected:
  Golden model = golden(GetParam());
  std::span<const std::int32_t> tokens() const { return std::span(model.ids).first(24); }
};

TEST_P(RoutingRules, ThresholdKeepsExpertsByTheirShareAndWeightsThatAddUp) {
  Engine plain = engine_over(model);
  Engine engine = engine_over(model, {{"top_k_rule", "threshold:0.7"}});
  const Routing all = routing_of(plain, tokens());
  const Routing kept = routing_of(engine, tokens());
  EXPECT_GT(count_of(kept, -1), 0);
  const int first_layer = all.ids.begin()->first;  // the only one whose inputs are the same
  const auto k = static_cast<std::size_t>(all.k);
  for (std::size_t token = 0; token < tokens().size(); ++token) {
    const auto weights = std::span(all.weights.at(first_layer)).subspan(token * k, k);
    const float largest = *std::ranges::max_element(weights);
    double sum = 0.0;
    double kept_sum = 0.0;
    for (std::size_t i = 0; i < k; ++i) {
      const bool stays = static_cast<double>(weights[i]) >= 0.7 * static_cast<double>(largest);
      EXPECT_EQ(kept.ids.at(first_layer)[token * k + i], stays ? all.ids.at(first_layer)[token * k + i] : -1);
      sum += static_cast<double>(weights[i]);
      kept_sum += static_cast<double>(kept.weights.at(first_layer)[token * k + i]);
      if (!stays) {
        EXPECT_EQ(kept.weights.at(first_layer)[token * k + i], 0.0F);
      }
    }
    if (model.checkpoint->spec().normalize_top_k) {
      EXPECT_NEAR(kept_sum, sum, 1e-5);
    }
  }
}

// One expert per token, whichever way it is asked for.
TEST_P(RoutingRules, TheStrictestThresholdIsTopKOfOneWhereTheFirstIsTheLargest) {
  if (model.checkpoint->spec().routing != RoutingRule::softmax_top_k)
    GTEST_SKIP() << "a bias may put another expert first";
  Engine one = engine_over(model, {{"top_k", "1"}});
  Engine strict = engine_over(model, {{"top_k_rule", "threshold:1"}});
  std::vector<float> expected;
  std::vector<float> found;
  routing_of(one, tokens(), &expected);
  routing_of(strict, tokens(), &found);
  expect_identical(found, expected, "top_k 1");
}

TEST_P(RoutingRules, PerLayerHasTopKExpertsOnAverage) {
  const int native = model.checkpoint->spec().experts_per_token;
  Engine engine = engine_over(model, {{"top_k", std::to_string(native - 1)}, {"top_k_rule", "per_layer"}});
  const Routing routing = routing_of(engine, tokens());
  EXPECT_EQ(routing.k, native);
  std::size_t layers = 0;
  std::int64_t experts = 0;
  for (const auto& [layer, ids] : routing.ids) {
    ++layers;
    experts += std::ssize(ids) - std::ranges::count(ids, -1);
  }
  EXPECT_EQ(experts, std::int64_t{native - 1} * static_cast<std::int64_t>(layers * tokens().size()));

  Engine whole = engine_over(model, {{"top_k_rule", "per_layer"}});
  Engine plain = engine_over(model);
  std::vector<float> expected;
  std::vector<float> found;
  routing_of(plain, tokens(), &expected);
  routing_of(whole, tokens(), &found);
  expect_identical(found, expected, "the native top_k leaves nothing to share out");
}

// Where experts lie does not change what they compute, whichever of them are asked for.
TEST_P(RoutingRules, RulesGiveTheSameBitsWithASmallCache) {
  const ModelSpec& spec = model.checkpoint->spec();
  const std::string share = std::to_string(static_cast<double>(spec.experts_per_token) / spec.experts + 1e-6);
  const std::string fewer = std::to_string(spec.experts_per_token - 1);
  for (const Settings& rule :
       {Settings{{"top_k_rule", "threshold:0.7"}}, Settings{{"top_k_rule", "per_layer"}, {"top_k", fewer}}}) {
    Settings small = rule;
    small.emplace_back("expert_cache", share);
    Engine resident = engine_over(model, rule);
    Engine cached = engine_over(model, small);
    std::vector<float> expected;
    std::vector<float> found;
    const Routing a = routing_of(resident, tokens(), &expected);
    const Routing b = routing_of(cached, tokens(), &found);
    expect_identical(found, expected, rule.front().second);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(
        cached.stats().expert_lookups,
        std::int64_t{b.k} * static_cast<std::int64_t>(b.ids.size() * tokens().size()) - count_of(b, -1));
  }
}

TEST_P(RoutingRules, RecordedRoutingWithDroppedExpertsGivesTheSameBits) {
  Engine engine = engine_over(model, {{"top_k_rule", "threshold:0.7"}});
  std::vector<float> expected;
  const Routing routing = routing_of(engine, tokens(), &expected);
  Engine forced = engine_over(model);
  replay_routing(forced, routing);
  expect_identical(teacher_forced(forced, tokens(), 1), expected, "forced");
}

TEST_P(RoutingRules, ReroutingSavesMissesAndIsTheSameEveryTime) {
  const ModelSpec& spec = model.checkpoint->spec();
  const std::string share = std::to_string(static_cast<double>(spec.experts_per_token) / spec.experts + 1e-6);
  Engine strict = engine_over(model, {{"expert_cache", share}});
  Engine engine = engine_over(model, {{"expert_cache", share}, {"reroute_margin", "0.5"}});
  routing_of(strict, tokens());
  std::vector<float> first;
  std::vector<float> second;
  routing_of(engine, tokens(), &first);
  const RunStats stats = engine.stats();
  EXPECT_GT(stats.experts_rerouted, 0);
  EXPECT_LT(stats.expert_misses, strict.stats().expert_misses);
  engine.drop_expert_cache();
  engine.reset_stats();
  routing_of(engine, tokens(), &second);
  expect_identical(second, first, "from an empty cache again");
  EXPECT_EQ(engine.stats().experts_rerouted, stats.experts_rerouted);
  EXPECT_EQ(engine.stats().expert_misses, stats.expert_misses);
}

// With everything resident nothing is missing, and a prompt is never rerouted.
TEST_P(RoutingRules, ReroutingLeavesResidentModelsAndPromptsAlone) {
  const ModelSpec& spec = model.checkpoint->spec();
  const std::string share = std::to_string(static_cast<double>(spec.experts_per_token) / spec.experts + 1e-6);
  Engine plain = engine_over(model);
  Engine resident = engine_over(model, {{"reroute_margin", "1"}});
  Engine cached = engine_over(model, {{"reroute_margin", "1"}, {"expert_cache", share}});
  expect_identical(teacher_forced(resident, tokens(), 1), teacher_forced(plain, tokens(), 1), "resident");
  expect_identical(teacher_forced(cached, tokens(), tokens().size()),
                   teacher_forced(plain, tokens(), tokens().size()), "prompt");
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, RoutingRules,
                         ::testing::Values("tiny_moe", "qwen3_moe_shards", "deepseek_v3_direct_q"),
                         [](const auto& checkpoint) { return std::string(checkpoint.param); });

}  // namespace
}  // namespace moetune::testing
