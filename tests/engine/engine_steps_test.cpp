// However tokens are cut into steps, and whatever runs beside them, the logits are the same bits. Against
// transformers: golden_test.cpp.
#include <stdexcept>

#include "engine/option_rules.h"
#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

class EngineSteps : public ::testing::TestWithParam<std::string> {};

TEST_P(EngineSteps, DecodeEqualsPrefillBitForBit) {
  const Golden expected = golden(GetParam());
  Engine engine = engine_over(expected);
  const std::vector<float> prefill = teacher_forced(engine, expected.ids, expected.ids.size());
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}})
    expect_identical(teacher_forced(engine, expected.ids, chunk), prefill,
                     "steps of " + std::to_string(chunk));
}

// Three sequences of unlike lengths, interleaved in one step per round, against each of them alone.
TEST_P(EngineSteps, SequencesSideBySideEqualOneAtATime) {
  const Golden expected = golden(GetParam());
  const std::span<const std::int32_t> ids(expected.ids);
  const std::vector<std::span<const std::int32_t>> prompts{ids.first(20), ids.subspan(5, 13),
                                                           ids.subspan(11, 29)};
  Engine together = engine_over(expected, {}, 3);
  std::vector<std::vector<float>> logits(prompts.size());
  const auto vocabulary = static_cast<std::size_t>(together.spec().vocabulary);
  for (std::size_t position = 0; position < 29; ++position) {
    std::vector<StepToken> step;
    for (const std::size_t sequence : {std::size_t{2}, std::size_t{0}, std::size_t{1}})
      if (position < prompts[sequence].size())
        step.push_back(step_of(prompts[sequence], position, position + 1, static_cast<int>(sequence))[0]);
    const std::span<const float> part = together.forward(step);
    for (std::size_t row = 0; row < step.size(); ++row) {
      auto& own = logits[static_cast<std::size_t>(step[row].sequence)];
      own.insert(own.end(), part.begin() + static_cast<std::ptrdiff_t>(row * vocabulary),
                 part.begin() + static_cast<std::ptrdiff_t>((row + 1) * vocabulary));
    }
  }
  Engine alone = engine_over(expected);
  for (std::size_t sequence = 0; sequence < prompts.size(); ++sequence)
    expect_identical(logits[sequence], teacher_forced(alone, prompts[sequence], prompts[sequence].size()),
                     "sequence " + std::to_string(sequence));
}

// Only some rows want logits: gathered where they do not lie together.
TEST_P(EngineSteps, WantedRowsAreThoseOfTheWholeStep) {
  const Golden expected = golden(GetParam());
  Engine engine = engine_over(expected);
  const std::vector<float> all = teacher_forced(engine, expected.ids, expected.ids.size());
  std::vector<StepToken> step = step_of(expected.ids, 0, expected.ids.size());
  std::vector<float> chosen;
  const auto vocabulary = static_cast<std::ptrdiff_t>(engine.spec().vocabulary);
  for (std::size_t i = 0; i < step.size(); ++i) {
    step[i].wants_logits = i % 3 == 1;
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(i) * vocabulary;
    if (step[i].wants_logits) chosen.insert(chosen.end(), row, row + vocabulary);
  }
  expect_identical(engine.forward(step), chosen, "every third row");
  for (StepToken& token : step) token.wants_logits = false;
  EXPECT_TRUE(engine.forward(step).empty());
}

TEST_P(EngineSteps, PrefillGivesTheLastRow) {
  const Golden expected = golden(GetParam());
  Engine engine = engine_over(expected, {{"prefill_chunk", "9"}});
  EXPECT_EQ(engine.limits().step_tokens, 9);
  const std::span<const float> last = engine.prefill(0, expected.ids);
  const std::span<const float> all(expected.logits);
  EXPECT_LE(largest_difference(last, all.last(static_cast<std::size_t>(engine.spec().vocabulary))), 2e-3);
}

TEST_P(EngineSteps, DecodingInTwoHalvesIsDecoding) {
  const Golden expected = golden(GetParam());
  for (const char* ranks : {"1", "2"}) {
    const EngineOptions options = options_with({{"tensor_parallel", ranks}});
    if (objection_to_options(spec_of(*expected.checkpoint), options, {})) continue;  // it cannot be split
    Engine engine(expected.checkpoint, options, {.sequences = 1, .context_tokens = 40, .step_tokens = 8});
    engine.prefill(0, std::span(expected.ids).first(8));
    const std::vector<StepToken> first = step_of(expected.ids, 8, 9);
    const Decoded whole = engine.decode({.first = first, .steps = 5});
    engine.start_decode({.first = first, .steps = 5});
    const Decoded halves = engine.finish_decode();
    EXPECT_EQ(halves.ids, whole.ids) << ranks;
    EXPECT_EQ(halves.step_seconds.size(), 5U) << ranks;
    EXPECT_THROW(engine.finish_decode(), std::logic_error) << ranks;
  }
}

// Other limits keep the weights and forget the contexts.
TEST_P(EngineSteps, OtherLimitsGiveTheSameLogits) {
  const Golden expected = golden(GetParam());
  const EngineOptions options;
  Engine engine(expected.checkpoint, options, {.sequences = 1, .context_tokens = 20, .step_tokens = 4});
  const std::vector<float> before = teacher_forced(engine, std::span(expected.ids).first(20), 4);
  for (const EngineLimits& limits :
       {EngineLimits{.sequences = 3, .context_tokens = 50, .step_tokens = 20, .logit_rows = 20},
        EngineLimits{.sequences = 1, .context_tokens = 20, .step_tokens = 1, .logit_rows = 1}}) {
    ASSERT_TRUE(engine.reconfigure(options, limits));
    EXPECT_EQ(engine.limits().sequences, limits.sequences);
    EXPECT_EQ(engine.limits().context_tokens, limits.context_tokens);
    const int slot = limits.sequences - 1;
    const std::vector<float> after = teacher_forced(engine, std::span(expected.ids).first(20),
                                                    static_cast<std::size_t>(limits.step_tokens), slot);
    expect_identical(after, before, std::to_string(limits.sequences) + " sequences");
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, EngineSteps, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

}  // namespace
}  // namespace moetune::testing
