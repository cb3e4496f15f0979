// Synthetic routing against what was published of each model: a long trace is made with the ops that the
// engine runs, and counted.
#include "engine/synthetic_routing.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <list>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/presets.h"
#include "kernels/route.h"
#include "tests/support/message_of.h"
#include "tests/support/tensors.h"

namespace moetune::testing {
namespace {

constexpr std::int64_t kTokens = 1536;  // of a sequence
constexpr double kTolerance = 0.04;     // of a share, beside the range that was published

using Ids = std::vector<std::int32_t>;  // (tokens, k), best first

RouteRule rule_of(const ModelSpec& spec) {
  return spec.routing == RoutingRule::softmax_top_k          ? RouteRule::softmax
         : spec.routing == RoutingRule::grouped_sigmoid_bias ? RouteRule::grouped_sigmoid_bias
                                                             : RouteRule::sqrt_softplus_bias;
}

Ids trace(const ModelSpec& spec, int layer, int sequence, bool is_prediction = false) {
  Cpu cpu(1);
  Device device = cpu;
  const OwnedTensor logits(device, NumberType::f32, {kTokens, spec.experts});
  const OwnedTensor ids(device, NumberType::i32, {kTokens, spec.experts_per_token});
  const OwnedTensor weights(device, NumberType::f32, {kTokens, spec.experts_per_token});
  std::vector<std::int32_t> favour = synthetic_favour(spec, 1, layer);
  std::vector<std::int32_t> sequences(kTokens, sequence);
  std::vector<std::int32_t> positions(kTokens);
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  SyntheticLogits op = synthetic_logits(spec, 1, layer);
  op.logits = logits.view();
  op.favour = Tensor(favour.data(), NumberType::i32, {spec.experts});
  op.sequences = Tensor(sequences.data(), NumberType::i32, {kTokens});
  op.positions = Tensor(positions.data(), NumberType::i32, {kTokens});
  op.is_prediction = is_prediction;
  run(cpu, op);
  run(cpu, Route{.logits = logits.view(),
                 .ids = ids.view(),
                 .weights = weights.view(),
                 .rule = rule_of(spec),
                 .groups = spec.expert_groups,
                 .kept_groups = spec.kept_groups});
  return {ids.view().i32(), ids.view().i32() + kTokens * spec.experts_per_token};
}

bool chose(const Ids& ids, std::int64_t token, int k, std::int32_t expert) {
  const auto* row = ids.data() + token * k;
  return std::find(row, row + k, expert) != row + k;
}

// Share of a token's experts that are chosen again within so many tokens.
double again_within(const Ids& ids, int k, int tokens) {
  std::int64_t again = 0;
  for (std::int64_t token = 0; token + tokens < kTokens; ++token)
    for (int i = 0; i < k; ++i) {
      const std::int32_t expert = ids[static_cast<std::size_t>(token * k + i)];
      bool found = false;
      for (int later = 1; later <= tokens && !found; ++later) found = chose(ids, token + later, k, expert);
      again += found ? 1 : 0;
    }
  return static_cast<double>(again) / static_cast<double>((kTokens - tokens) * k);
}

double first_again(const Ids& ids, int k) {
  std::int64_t again = 0;
  for (std::int64_t token = 0; token + 1 < kTokens; ++token)
    again +=
        ids[static_cast<std::size_t>(token * k)] == ids[static_cast<std::size_t>((token + 1) * k)] ? 1 : 0;
  return static_cast<double>(again) / static_cast<double>(kTokens - 1);
}

double top_share(const Ids& ids, int experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
  for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  std::ranges::sort(counts, std::greater());
  std::int64_t top = 0;
  for (std::size_t i = 0; i < counts.size() * 4 / 10; ++i) top += counts[i];
  return static_cast<double>(top) / static_cast<double>(ids.size());
}

double lru_hit(const Ids& ids, int experts) {
  const auto capacity = static_cast<std::size_t>(experts * 4 / 10);
  std::list<std::int32_t> cached;
  std::int64_t hits = 0;
  for (const std::int32_t id : ids) {
    const auto found = std::ranges::find(cached, id);
    hits += found != cached.end() ? 1 : 0;
    if (found != cached.end()) cached.erase(found);
    cached.push_front(id);
    if (cached.size() > capacity) cached.pop_back();
  }
  return static_cast<double>(hits) / static_cast<double>(ids.size());
}

double overlap(const Ids& a, const Ids& b, int k) {
  std::int64_t both = 0;
  for (std::int64_t token = 0; token < kTokens; ++token)
    for (int i = 0; i < k; ++i)
      both += chose(b, token, k, a[static_cast<std::size_t>(token * k + i)]) ? 1 : 0;
  return static_cast<double>(both) / static_cast<double>(a.size());
}

struct Statistics {
  double same = 0.0, first = 0.0, within_8 = 0.0, top = 0.0, lru = 0.0, next_layer = 0.0;
};
// Mean over traces of some layers and sequences.
Statistics statistics_of(const ModelSpec& spec, const std::vector<int>& layers) {
  Statistics mean;
  const int k = spec.experts_per_token;
  const double part = 1.0 / (2.0 * static_cast<double>(layers.size()));
  for (const int layer : layers)
    for (const int sequence : {0, 3}) {
      const Ids ids = trace(spec, layer, sequence);
      mean.same += part * again_within(ids, k, 1);
      mean.first += part * first_again(ids, k);
      mean.within_8 += part * again_within(ids, k, 8);
      mean.top += part * top_share(ids, spec.experts);
      mean.lru += part * lru_hit(ids, spec.experts);
      mean.next_layer += part * overlap(trace(spec, layer, sequence, true), ids, k);
    }
  return mean;
}

int first_moe_layer(const ModelSpec& spec) {
  return static_cast<int>(std::find(spec.moe_layers.begin(), spec.moe_layers.end(), true) -
                          spec.moe_layers.begin());
}

class SyntheticRouted : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { spec_ = open_preset(GetParam()).spec; }
  ModelSpec spec_;
};

TEST_P(SyntheticRouted, MeetsWhatWasPublished) {
  ASSERT_TRUE(spec_.synthetic_routing);
  const SyntheticRouting& routing = *spec_.synthetic_routing;
  const Statistics found = statistics_of(spec_, {first_moe_layer(spec_) + 5, spec_.layers - 3});
  std::printf("%-18s same %.3f first %.3f within 8 %.3f top 40 %% %.3f LRU at 40 %% %.3f next layer %.3f\n",
              GetParam().c_str(), found.same, found.first, found.within_8, found.top, found.lru,
              found.next_layer);
  const auto check = [&](const char* name, const std::optional<PublishedShare>& published, double value) {
    if (!published) return;
    EXPECT_GE(value, published->low - kTolerance) << name;
    EXPECT_LE(value, published->high + kTolerance) << name;
  };
  check("same expert at the next token", routing.same_expert, found.same);
  check("same first choice", routing.first_choice, found.first);
  check("again within 8 tokens", routing.within_8, found.within_8);
  check("share of the top 40 %", routing.top_share, found.top);
  check("LRU hit at 40 %", routing.lru_hit, found.lru);
  check("foreseen from the layer before", routing.next_layer, found.next_layer);
}

// Of k experts out of E, k / E are the same by chance.
TEST_P(SyntheticRouted, TheFirstLayerIsNearChance) {
  const Statistics found = statistics_of(spec_, {first_moe_layer(spec_)});
  const double chance = static_cast<double>(spec_.experts_per_token) / spec_.experts;
  EXPECT_NEAR(found.same, chance, 0.02);
  EXPECT_NEAR(found.top, static_cast<double>(spec_.experts * 4 / 10) / spec_.experts,
              0.09);  // counting noise favours some
}

TEST_P(SyntheticRouted, SequencesAndLayersGoTheirOwnWay) {
  const int layer = first_moe_layer(spec_) + 2;
  const int k = spec_.experts_per_token;
  const Ids ids = trace(spec_, layer, 0);
  EXPECT_EQ(ids, trace(spec_, layer, 0));
  const double popular = 1.0 - 0.4 * (1.0 - static_cast<double>(k) / spec_.experts);
  EXPECT_LT(overlap(ids, trace(spec_, layer, 1), k), popular);
  EXPECT_LT(overlap(ids, trace(spec_, layer + 1, 0), k), popular);
}

INSTANTIATE_TEST_SUITE_P(Presets, SyntheticRouted,
                         ::testing::Values("mixtral-8x7b", "olmoe-1b-7b", "qwen3-30b-a3b", "deepseek-v2-lite",
                                           "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "deepseek-v4-flash",
                                           "deepseek-v4-pro", "hypothetical-v4"),
                         [](const auto& preset) {
                           std::string name = preset.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Fewer experts of a token are the first of those that it would have had.
TEST(SyntheticRouting, ASmallerTopKIsAPrefix) {
  ModelSpec spec = open_preset("qwen3-30b-a3b").spec;
  const Ids eight = trace(spec, 7, 0);
  spec.experts_per_token = 3;
  const Ids three = trace(spec, 7, 0);
  for (std::size_t token = 0; token < static_cast<std::size_t>(kTokens); ++token)
    for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(three[3 * token + i], eight[8 * token + i]) << token;
}

TEST(SyntheticRouting, CanBeTurnedOff) {
  EXPECT_FALSE(open_preset("mixtral-8x7b:routing=0").spec.synthetic_routing);
  EXPECT_NE(open_preset("mixtral-8x7b:routing=0").spec.content_hash,
            open_preset("mixtral-8x7b").spec.content_hash);
  EXPECT_EQ(open_preset("mixtral-8x7b:routing=1").spec.content_hash,
            open_preset("mixtral-8x7b").spec.content_hash);
  EXPECT_TRUE(has_text(message_of<InputError>([] { open_preset("mixtral-8x7b:routing=2"); }),
                       "routing: 2 (accepted: 0"));
}

}  // namespace
}  // namespace moetune::testing
