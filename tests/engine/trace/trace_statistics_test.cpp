// Statistics, hot sets, groups and the learned predictor on traces whose answers are known by hand.
#include "engine/trace/trace_statistics.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "engine/trace/grouped_cache.h"
#include "engine/trace/hot_sets.h"
#include "engine/trace/learned_predictor.h"
#include "engine/trace/text_kinds.h"
#include "engine/trace/trace_analysis.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

using Ids = std::vector<std::int32_t>;

// Sequences one after the other: the first `prompt` tokens in one step, then one token a step.
// choice(sequence, position): the experts of all layers, (layers, k).
template <class Choice>
RoutingTrace trace_of(int sequences, int prompt, int tokens, int layers, int experts, int k,
                      const Choice& choice) {
  RoutingTrace trace;
  trace.model = "made-up";
  trace.layers = layers;
  trace.experts = experts;
  trace.k = k;
  trace.expert_bytes = 1;
  trace.kind_names = {"even", "odd"};
  std::int32_t step = -1;
  for (int sequence = 0; sequence < sequences; ++sequence)
    for (int position = 0; position < tokens; ++position) {
      const bool decodes = position >= prompt;
      step += decodes || position == 0 ? 1 : 0;
      trace.token_ids.push_back(position);
      trace.sequences.push_back(sequence);
      trace.positions.push_back(position);
      trace.steps.push_back(step);
      trace.decodes.push_back(decodes ? 1 : 0);
      trace.kinds.push_back(sequence / 2 % 2);
      const Ids ids = choice(sequence, position);
      trace.expert_ids.insert(trace.expert_ids.end(), ids.begin(), ids.end());
    }
  trace.expert_weights.assign(trace.expert_ids.size(), 1.0F);
  trace.foreseen.assign(trace.expert_ids.size(), -1);
  return trace;
}

TEST(Statistics, CountsWhatComesAgainAtTheNextToken) {
  // Layer 0 always the same two, layer 1 one of two.
  const RoutingTrace trace =
      trace_of(1, 1, 5, 2, 8, 2, [](int, int position) { return Ids{0, 1, 2, 3 + position}; });
  EXPECT_EQ(trace_statistics(trace).same_as_last_token, (std::vector<double>{1.0, 0.5}));
}

TEST(Statistics, PutsStepsOfManySequencesTogether) {
  // The i-th sequence chooses experts i and i + 1: four side by side have five different ones.
  const RoutingTrace trace =
      trace_of(4, 1, 3, 1, 8, 2, [](int sequence, int) { return Ids{sequence, sequence + 1}; });
  const TraceStatistics statistics = trace_statistics(trace);
  EXPECT_EQ(statistics.distinct_per_step.at(1), 2.0);
  EXPECT_EQ(statistics.distinct_per_step.at(4), 5.0);
  EXPECT_FALSE(statistics.distinct_per_step.contains(32)) << "there are only four";
  EXPECT_NEAR(statistics.distinct_by_chance.at(4), 8.0 * (1.0 - 0.75 * 0.75 * 0.75 * 0.75), 1e-12);
}

TEST(Statistics, ComparesPromptAndAnswer) {
  const RoutingTrace trace =
      trace_of(1, 2, 4, 1, 8, 2, [](int, int position) { return position < 2 ? Ids{0, 1} : Ids{1, 2}; });
  EXPECT_EQ(trace_statistics(trace).prompt_and_answer, 0.5);
}

TEST(Statistics, AddUpTheRoutersMassAndTheGatesRecall) {
  RoutingTrace trace = trace_of(1, 1, 3, 2, 8, 2, [](int, int) { return Ids{0, 1, 2, 3}; });
  for (std::size_t i = 0; i < trace.expert_weights.size(); i += 2) trace.expert_weights[i] = 3.0F;
  for (std::size_t token = 0; token < 3; ++token) {
    trace.foreseen[token * 4 + 2] = 3;
    trace.foreseen[token * 4 + 3] = 7;
  }
  const TraceStatistics statistics = trace_statistics(trace);
  ASSERT_EQ(statistics.mass_of_first.size(), 2U);
  EXPECT_NEAR(statistics.mass_of_first[0], 0.75, 1e-12);
  EXPECT_NEAR(statistics.mass_of_first[1], 1.0, 1e-12);
  EXPECT_EQ(statistics.next_layer_recall, (std::vector<double>{0.0, 0.5}));
}

// Kinds 0 and 1 use disjoint experts.
TEST(HotSets, FitTheirOwnKind) {
  const RoutingTrace trace = trace_of(
      8, 1, 4, 1, 8, 2, [](int sequence, int) { return sequence / 2 % 2 == 0 ? Ids{0, 1} : Ids{4, 5}; });
  const auto half = [&](int remainder) {
    return trace.part([=](std::int32_t sequence) { return sequence % 2 == remainder; });
  };
  const HotSets sets = hot_sets(half(0), half(1), 0.25);
  EXPECT_EQ(sets.kinds, (std::vector<std::string>{"even", "odd"}));
  EXPECT_EQ(sets.hit, (std::vector<std::vector<double>>{{1.0, 0.0}, {0.0, 1.0}}));
  EXPECT_EQ(sets.hit_of_all[0] + sets.hit_of_all[1], 1.0) << "two places for four experts";
  EXPECT_EQ(sets.hit_by_other_kinds, (std::vector<double>{0.0, 0.0}));
}

TEST(GroupedCache, BringsInWhatIsChosenTogether) {
  // Tokens take 0 and 5, or 2 and 7, in turn.
  const RoutingTrace trace =
      trace_of(1, 1, 9, 1, 8, 2, [](int, int position) { return position % 2 == 0 ? Ids{0, 5} : Ids{2, 7}; });
  const auto groups = group_experts(trace, 2);
  EXPECT_EQ(groups[0][0], groups[0][5]);
  EXPECT_EQ(groups[0][2], groups[0][7]);
  EXPECT_NE(groups[0][0], groups[0][2]);
  const GroupedCounts counts = replay_groups(trace, groups, 2, 4);
  EXPECT_EQ(counts.misses, 2) << "both experts of one group, once";
  EXPECT_EQ(counts.loads, 2);
  EXPECT_EQ(counts.loads_in_vain, 0);
  EXPECT_EQ(counts.hits, 14);

  const std::vector<std::vector<std::int32_t>> wrong{
      {0, 1, 2, 3, 0, 1, 2, 3}};  // 0 with 4, 5 with 1, 2 with 6, 7 with 3
  const GroupedCounts in_vain = replay_groups(trace, wrong, 2, 4);
  EXPECT_GT(in_vain.loads_in_vain, 0);
  EXPECT_EQ(in_vain.loads_in_vain * 2, in_vain.loads) << "every group brings one that nobody wants";
}

TEST(LearnedPredictor, LearnsWhichExpertFollowsOnWhich) {
  // The second layer's experts follow from the first layer's.
  const auto choice = [](int sequence, int position) {
    const int first = (sequence * 3 + position * 5) % 6;
    return Ids{first, (first + 2) % 6};
  };
  const RoutingTrace trace = trace_of(8, 2, 40, 2, 6, 1, choice);
  const LearnedPredictor learned = LearnedPredictor::train(trace);
  for (int first = 0; first < 6; ++first) {
    const Ids before{first};
    const std::vector<float> scores = learned.scores(1, before, {});
    EXPECT_EQ(std::ranges::max_element(scores) - scores.begin(), (first + 2) % 6) << first;
  }
  const ReplayCounts counts = replay(
      trace, {.layers = 2, .experts = 6, .slots = 2, .policy = CachePolicy::layer_lru}, learned.guesser());
  EXPECT_GT(counts.recall(), 0.9);
  EXPECT_EQ(learned.bytes(), 2 * 13 * 6 * 4);
}

TEST(Analysis, TakesTracesOfOneSequence) {
  const TraceAnalysis analysis =
      analyse_trace(trace_of(1, 1, 5, 2, 8, 2, [](int, int position) { return Ids{0, 1, 2, 3 + position}; }));
  EXPECT_TRUE(analysis.predictors.empty()) << "nothing to judge them on";
  EXPECT_EQ(analysis.points.front().slots, 4);
  EXPECT_EQ(analysis.points.back().slots, 16);
  for (const CachePoint& point : analysis.points) {
    EXPECT_GE(point.fixed, 0.0);
    EXPECT_LE(point.lru, 1.0);
  }
}

TEST(TextKinds, ReadsRangesAndNamesWhatIsWrong) {
  const std::string heading = "first_byte\tbytes\tkind\tpackage\n";
  const TextKinds kinds = parse_text_kinds(heading + "0\t2\tenglish\ta\n3\t2\tpython\tb\n", 6, "t");
  EXPECT_EQ(kinds.names, (std::vector<std::string>{"english", "python"}));
  EXPECT_EQ(kinds.of_token, (Ids{0, 0, 1, 1, 1, 1}));
  const auto message = [&](const std::string& rows) {
    return message_of<InputError>([&] { parse_text_kinds(heading + rows, 6, "t"); });
  };
  EXPECT_EQ(message("0\t7\tenglish\n"), "t, line 2: bytes: '7' (accepted: 1 .. 6)");
  EXPECT_EQ(message("0\t2\tenglish\n1\t2\tpython\n"), "t, line 3: first_byte: '1' (accepted: 2 .. 6)");
  EXPECT_EQ(message("0\tx\tenglish\n"), "t, line 2: bytes: 'x' (accepted: 1 .. 6)");
  EXPECT_EQ(message("0\t2\n"), "t, line 2: kind: '' (accepted: a name without commas)");
  EXPECT_EQ(parse_text_kinds("", 2, "t").names, (std::vector<std::string>{"text"}));
}

}  // namespace
}  // namespace moetune::testing
