// Route: both rules on cases whose answer can be worked out by hand, ties, groups, and odd inputs.
#include "kernels/route.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

// One token; `op` says the rule.
Routed route(const std::vector<float>& logits, std::int64_t k, Route op,
             const std::vector<float>& bias = {}) {
  Device device = cpu();
  const auto experts = static_cast<std::int64_t>(logits.size());
  const OwnedTensor scores =
      filled({1, experts}, [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; });
  const OwnedTensor biases = filled(
      {experts}, [&](std::int64_t i) { return bias.empty() ? 0.0F : bias[static_cast<std::size_t>(i)]; });
  const OwnedTensor chosen = ids({1, k}, std::vector<std::int32_t>(static_cast<std::size_t>(k), -1));
  const OwnedTensor shares = poisoned({1, k});
  op.logits = scores.view();
  if (!bias.empty()) op.bias = biases.view();
  op.ids = chosen.view();
  op.weights = shares.view();
  run(device, op);
  return {{chosen.view().i32(), chosen.view().i32() + k}, values_of(shares.view())};
}

Route softmax_rule() { return {}; }
Route sigmoid_rule(int groups, int kept) {
  Route op;
  op.rule = RouteRule::grouped_sigmoid_bias;
  op.groups = groups;
  op.kept_groups = kept;
  return op;
}
float logit_of(float probability) { return std::log(probability / (1.0F - probability)); }

TEST(Route, SoftmaxKeepsTheLargestAndRenormalises) {
  const float two = std::log(2.0F);
  const Routed routed = route({0.0F, two, 0.0F, 2 * two}, 2, softmax_rule());  // shares 1 2 1 4 of 8
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{3, 1}));
  EXPECT_NEAR(routed.weights[0], 4.0F / 6, 1e-6F);
  EXPECT_NEAR(routed.weights[1], 2.0F / 6, 1e-6F);
}

TEST(Route, SoftmaxWithoutRenormalisationKeepsProbabilitiesOfAll) {
  const float two = std::log(2.0F);
  Route op;
  op.normalize = false;
  op.scale = 3.0F;
  const Routed routed = route({0.0F, two, 0.0F, 2 * two}, 2, op);
  EXPECT_NEAR(routed.weights[0], 3 * 4.0F / 8, 1e-6F);
  EXPECT_NEAR(routed.weights[1], 3 * 2.0F / 8, 1e-6F);
}

TEST(Route, TiesGoToTheLowerId) {
  EXPECT_EQ(route({1, 2, 2, 1, 2}, 4, softmax_rule()).ids, (std::vector<std::int32_t>{1, 2, 4, 0}));
  EXPECT_EQ(route({0, 0, 0, 0}, 2, sigmoid_rule(2, 1)).ids, (std::vector<std::int32_t>{0, 1}));
}

TEST(Route, HugeLogitsDoNotOverflow) {
  const Routed routed = route({1e30F, -1e30F, 1e30F, 500.0F}, 2, softmax_rule());
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(routed.weights, (std::vector<float>{0.5F, 0.5F}));
  for (const float weight : route({-200.0F, 300.0F}, 2, sigmoid_rule(1, 1)).weights)
    EXPECT_TRUE(std::isfinite(weight));
}

TEST(Route, BiasChoosesButDoesNotWeigh) {
  const std::vector<float> logits{logit_of(0.6F), logit_of(0.5F), logit_of(0.2F), logit_of(0.1F)};
  Route op = sigmoid_rule(1, 1);
  op.scale = 2.5F;
  const Routed routed = route(logits, 2, op, {0.0F, -1.0F, 1.0F, 0.0F});
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{2, 0}));  // 1.2, 0.6
  EXPECT_NEAR(routed.weights[0], 2.5F * 0.2F / 0.8F, 1e-6F);
  EXPECT_NEAR(routed.weights[1], 2.5F * 0.6F / 0.8F, 1e-6F);
}

TEST(Route, GroupsAreScoredByTheirBestTwo) {
  // Group 0 has the single best expert, group 1 the best pair, group 2 a good pair, group 3 nothing.
  const std::vector<float> logits{logit_of(0.95F), logit_of(0.01F), logit_of(0.02F),  //
                                  logit_of(0.7F),  logit_of(0.6F),  logit_of(0.05F),  //
                                  logit_of(0.5F),  logit_of(0.55F), logit_of(0.54F),  //
                                  logit_of(0.1F),  logit_of(0.1F),  logit_of(0.1F)};
  EXPECT_EQ(route(logits, 3, sigmoid_rule(4, 1)).ids, (std::vector<std::int32_t>{3, 4, 5}));
  EXPECT_EQ(route(logits, 4, sigmoid_rule(4, 2)).ids, (std::vector<std::int32_t>{3, 4, 7, 8}));
  EXPECT_EQ(route(logits, 4, sigmoid_rule(4, 4)).ids, (std::vector<std::int32_t>{0, 3, 4, 7}));
}

TEST(Route, AKeptGroupIsChosenEvenWithNegativeScores) {
  const std::vector<float> bias{-5, -6, -9, -9};
  EXPECT_EQ(route({0, 0, 0, 0}, 2, sigmoid_rule(2, 1), bias).ids, (std::vector<std::int32_t>{0, 1}));
}

TEST(Route, GroupsOfOneExpert) {
  EXPECT_EQ(route({0, 2, 1}, 2, sigmoid_rule(3, 2)).ids, (std::vector<std::int32_t>{1, 2}));
}

TEST(Route, UnnormalisedSigmoid) {
  Route op = sigmoid_rule(1, 1);
  op.normalize = false;
  EXPECT_NEAR(route({logit_of(0.75F), logit_of(0.25F)}, 1, op).weights[0], 0.75F, 1e-6F);
}

// The same experts in another order: each keeps its own weight, and nothing but the weights is written.
TEST(Route, GivenExpertsGetTheScoresTheyHave) {
  const std::vector<float> logits{0.5F, -1.0F, 2.0F, 0.0F, 1.0F, 3.0F};
  Route op = sigmoid_rule(3, 2);
  op.scale = 2.5F;
  for (const Route& rule : {softmax_rule(), op}) {
    const Routed free = route(logits, 3, rule, {0.1F, 3.0F, 0.0F, 0.0F, 0.2F, 0.0F});
    Device device = cpu();
    const OwnedTensor scores =
        filled({1, 6}, [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; });
    const OwnedTensor given = ids({1, 3}, {free.ids[2], free.ids[0], free.ids[1]});
    const OwnedTensor weights = poisoned({1, 3});
    Route forced = rule;
    forced.logits = scores.view();
    forced.ids = given.view();
    forced.weights = weights.view();
    forced.ids_are_given = true;
    run(device, forced);
    EXPECT_EQ(given.view().i32()[0], free.ids[2]);
    for (const auto& [here, there] : {std::pair{0, 2}, {1, 0}, {2, 1}})
      EXPECT_NEAR(weights.view().f32()[here], free.weights[static_cast<std::size_t>(there)], 1e-6F) << here;
  }
}

TEST(Route, GivenExpertsNeedNotBeTheBest) {
  const float two = std::log(2.0F);
  Device device = cpu();
  const OwnedTensor scores =
      filled({1, 4}, [&](std::int64_t i) { return static_cast<float>(i) * two; });  // shares 1 2 4 8 of 15
  const OwnedTensor given = ids({1, 2}, {0, 2});
  const OwnedTensor weights = poisoned({1, 2});
  run(device,
      Route{.logits = scores.view(), .ids = given.view(), .weights = weights.view(), .ids_are_given = true});
  EXPECT_NEAR(weights.view().f32()[0], 1.0F / 5, 1e-6F);
  EXPECT_NEAR(weights.view().f32()[1], 4.0F / 5, 1e-6F);
}

TEST(Route, SqrtSoftplusScores) {
  Route op;
  op.rule = RouteRule::sqrt_softplus_bias;
  op.scale = 1.5F;
  // softplus(log(e^4 - 1)) = 4 and softplus(log(e - 1)) = 1: scores 2 and 1, chosen with a bias, weighed
  // without.
  const std::vector<float> logits{std::log(std::exp(4.0F) - 1.0F), -3.0F, std::log(std::exp(1.0F) - 1.0F),
                                  -4.0F};
  const Routed routed = route(logits, 2, op, {0.0F, 0.0F, 5.0F, 0.0F});
  EXPECT_EQ(routed.ids, (std::vector<std::int32_t>{2, 0}));
  EXPECT_NEAR(routed.weights[0], 1.5F * 1.0F / 3.0F, 1e-6F);
  EXPECT_NEAR(routed.weights[1], 1.5F * 2.0F / 3.0F, 1e-6F);
  op.normalize = false;
  const Routed far = route({90.0F, -90.0F}, 2, op);  // neither overflows: sqrt(90), sqrt(e^-90)
  EXPECT_NEAR(far.weights[0], 1.5F * std::sqrt(90.0F), 1e-5F);
  EXPECT_GE(far.weights[1], 0.0F);
}

// A broken router must not lead to an expert that does not exist, or to the same one twice.
TEST(Route, NanLogitsStillGiveDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Route& op : {softmax_rule(), sigmoid_rule(2, 2), sigmoid_rule(2, 1)})
    for (const std::vector<float>& logits :
         {std::vector<float>{nan, nan, nan, nan}, {1, nan, 2, nan}, {nan, 3, 2, 1}}) {
      const Routed routed = route(logits, 2, op);
      const std::set<std::int32_t> distinct(routed.ids.begin(), routed.ids.end());
      EXPECT_EQ(distinct.size(), 2U);
      EXPECT_GE(*distinct.begin(), 0);
      EXPECT_LT(*distinct.rbegin(), 4);
    }
}

TEST(Route, TokensAreIndependentAndRowsMayBeStrided) {
  const OwnedTensor wide = random_floats({300, 40}, 1);
  const Tensor logits = wide.view().columns(4, 32);
  const auto run_on = [&](int threads, const OwnedTensor& chosen, const OwnedTensor& shares) {
    Device device = cpu(threads);
    Route op = sigmoid_rule(4, 2);
    op.logits = logits;
    op.ids = chosen.view();
    op.weights = shares.view();
    run(device, op);
  };
  const OwnedTensor first = ids({300, 8}, std::vector<std::int32_t>(2400, -1));
  const OwnedTensor second = ids({300, 8}, std::vector<std::int32_t>(2400, -1));
  const OwnedTensor first_shares = poisoned({300, 8});
  const OwnedTensor second_shares = poisoned({300, 8});
  run_on(1, first, first_shares);
  run_on(3, second, second_shares);
  EXPECT_EQ(std::memcmp(first.view().data(), second.view().data(), 2400 * sizeof(std::int32_t)), 0);
  expect_same_bits(first_shares.view(), second_shares.view(), "threads");
  for (std::int64_t token = 0; token < 300; ++token) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < 8; ++i) sum += first_shares.view().f32()[token * 8 + i];
    EXPECT_NEAR(sum, 1.0F, 1e-6F);
  }
}

}  // namespace
}  // namespace moetune
