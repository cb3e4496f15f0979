// Steps that are refused name the token's place, the value and what is accepted, and change nothing.
#include "engine/step_rules.h"

#include "engine/facts/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

const EngineLimits kLimits{.sequences = 2, .context_tokens = 8, .step_tokens = 5, .logit_rows = 3};

StepToken token(int id, int sequence, int position, bool wants_logits = false) {
  return {.id = id, .sequence = sequence, .position = position, .wants_logits = wants_logits};
}

class Steps : public ::testing::Test {
 protected:
  Steps() { contexts.accept(std::vector<StepToken>{token(1, 0, 0), token(2, 0, 1), token(3, 1, 0)}); }
  std::string refusal(const std::vector<StepToken>& step) {
    return message_of<InputError>([&] { contexts.accept(step); });
  }
  ContextLengths contexts{kLimits, 10};
};

TEST_F(Steps, RefuseWhatIsOutOfRange) {
  EXPECT_TRUE(has_text(refusal({}), "step: 0 tokens (accepted: 1 .. 5)"));
  EXPECT_TRUE(has_text(refusal(std::vector<StepToken>(6)), "step: 6 tokens"));
  EXPECT_TRUE(has_text(refusal({token(10, 0, 2)}), "token 0 of the step, id: 10 (accepted: 0 .. 9)"));
  EXPECT_TRUE(has_text(refusal({token(1, 0, 2), token(-1, 1, 1)}), "token 1 of the step, id: -1"));
  EXPECT_TRUE(has_text(refusal({token(1, 2, 0)}), "sequence: 2 (accepted: 0 .. 1)"));
  EXPECT_TRUE(has_text(refusal({token(1, -1, 0)}), "sequence: -1"));
  EXPECT_TRUE(has_text(refusal({token(1, 0, -1)}), "position: -1"));
  EXPECT_TRUE(has_text(refusal({token(1, 0, 8)}), "position: 8 (accepted: 0 .. 7"));
  EXPECT_TRUE(
      has_text(refusal({token(1, 0, 3)}), "position: 3 (accepted: 0 .. 2: sequence 0 holds 2 tokens)"));
  EXPECT_TRUE(
      has_text(refusal({token(1, 0, 2), token(1, 0, 4)}), "token 1 of the step, position: 4 (accepted: 3"));
  EXPECT_TRUE(
      has_text(refusal({token(1, 0, 1), token(1, 0, 1)}), "token 1 of the step, position: 1 (accepted: 2"));
  EXPECT_TRUE(has_text(
      refusal({token(1, 0, 2, true), token(1, 0, 3, true), token(1, 0, 4, true), token(1, 0, 5, true)}),
      "4 tokens want logits (accepted: at most 3)"));
  EXPECT_EQ(contexts.length(0), 2);
  EXPECT_EQ(contexts.length(1), 1);
}

TEST_F(Steps, MayOverwriteATail) {
  contexts.accept(std::vector<StepToken>{token(5, 0, 1), token(6, 0, 2), token(7, 1, 0)});
  EXPECT_EQ(contexts.length(0), 3);
  EXPECT_EQ(contexts.length(1), 1);
  contexts.accept(std::vector<StepToken>{token(5, 0, 0)});
  EXPECT_EQ(contexts.length(0), 1);
  EXPECT_TRUE(has_text(refusal({token(1, 0, 2)}), "sequence 0 holds 1 tokens"));
}

TEST(EngineSteps, AnOverwrittenTailIsForgotten) {
  const Golden model = golden("mixtral");
  Engine engine = engine_over(model);
  const std::vector<float> all = teacher_forced(engine, model.ids, model.ids.size());
  std::vector<StepToken> wrong = step_of(model.ids, 20, 40);
  for (StepToken& t : wrong) t.id = (t.id + 1) % engine.spec().vocabulary;
  engine.forward(wrong);
  const std::span<const float> rest = engine.forward(step_of(model.ids, 20, model.ids.size()));
  expect_identical(rest, std::span(all).last(rest.size()), "after other tokens stood in the tail");
}

TEST(EngineSteps, ARefusedStepLeavesTheEngineAsItWas) {
  const Golden model = golden("mixtral");
  Engine engine = engine_over(model);
  const std::vector<float> all = teacher_forced(engine, model.ids, model.ids.size());
  engine.forward(step_of(model.ids, 0, 30));
  std::vector<StepToken> bad = step_of(model.ids, 30, 32);
  bad[1].id = engine.spec().vocabulary;
  EXPECT_THROW(engine.forward(bad), InputError);
  const std::span<const float> rest = engine.forward(step_of(model.ids, 30, model.ids.size()));
  expect_identical(rest, std::span(all).last(rest.size()), "after a refused step");
}

}  // namespace
}  // namespace moetune::testing
