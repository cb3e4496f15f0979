// Which tokens a step holds: requests join and leave, prompts are read beside answers, KV caches are found
// again.
#include "engine/scheduler.h"

#include <map>
#include <numeric>

#include <gtest/gtest.h>

namespace moetune {
namespace {

using Tokens = std::vector<std::int32_t>;

// first, first + 1, ...
Tokens counted(int first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

EngineLimits limits(int sequences, int step_tokens) {
  return {.sequences = sequences, .context_tokens = 100, .step_tokens = step_tokens};
}

// "slot:count" of a batch, in order; decode steps behind it.
std::string shape_of(const Batch& batch) {
  std::map<int, int> counts;
  for (const StepToken& token : batch.tokens) ++counts[token.sequence];
  std::string text;
  for (const auto& [slot, count] : counts) text += std::to_string(slot) + ":" + std::to_string(count) + " ";
  return text + "x" + std::to_string(batch.decode_steps);
}

// Runs to the end, one batch after the other.
std::vector<std::string> shapes(Scheduler& scheduler, int most_steps = 100) {
  std::vector<std::string> all;
  while (!scheduler.is_idle()) {
    const Batch batch = scheduler.next(most_steps);
    all.push_back(shape_of(batch));
    scheduler.ran(batch);
  }
  return all;
}

TEST(Scheduler, ReadsAPromptInPiecesAndDecodesInARow) {
  const Tokens text = counted(0, 14);
  Scheduler scheduler(limits(1, 4), true);
  scheduler.add({.text = text, .prompt_tokens = 10, .answer_tokens = 4});
  EXPECT_EQ(shapes(scheduler), (std::vector<std::string>{"0:4 x0", "0:4 x0", "0:2 x0", "0:1 x3"}));
}

TEST(Scheduler, FeedsEveryTokenOnceAtItsPlace) {
  const Tokens text = counted(50, 9);
  Scheduler scheduler(limits(1, 4), true);
  scheduler.add({.text = text, .prompt_tokens = 5, .answer_tokens = 4});
  Tokens fed;
  std::vector<int> wanting;
  while (!scheduler.is_idle()) {
    const Batch batch = scheduler.next(2);
    for (const StepToken& token : batch.tokens) {
      EXPECT_EQ(token.position, std::ssize(fed));
      fed.push_back(token.id);
      if (token.wants_logits) wanting.push_back(token.position);
    }
    for (int step = 1; step < batch.decode_steps; ++step)
      fed.push_back(batch.forced[static_cast<std::size_t>(step - 1)]);
    scheduler.ran(batch);
  }
  EXPECT_EQ(fed, counted(50, 8)) << "all but the last token of the answer";
  EXPECT_EQ(wanting, (std::vector<int>{4, 5, 7})) << "the prompt's end, and the first step of each decoding";
}

TEST(Scheduler, APromptJoinsBesideAnswers) {
  const Tokens text = counted(0, 20);
  Scheduler scheduler(limits(2, 4), true);
  const int first = scheduler.add({.text = text, .prompt_tokens = 3, .answer_tokens = 6});
  scheduler.ran(scheduler.next(1));
  const Tokens other = counted(100, 20);
  const int second = scheduler.add({.text = other, .prompt_tokens = 6, .answer_tokens = 2});
  Batch batch = scheduler.next(10);
  EXPECT_EQ(batch.began, std::vector<int>{second});
  EXPECT_EQ(shape_of(batch), "0:1 1:3 x0") << "the answer first, the prompt in what is left of the step";
  EXPECT_EQ(scheduler.ran(batch).front().request, first);
  batch = scheduler.next(10);
  EXPECT_EQ(shape_of(batch), "0:1 1:3 x0");
  EXPECT_EQ(scheduler.ran(batch).size(), 2U) << "a token of each";
  EXPECT_EQ(shapes(scheduler), (std::vector<std::string>{"0:1 1:1 x1", "0:1 x2"}))
      << "the second one leaves, the first goes on";
}

TEST(Scheduler, WhoFindsNoFreeSlotWaitsInLine) {
  const Tokens text = counted(0, 20);
  Scheduler scheduler(limits(2, 8), true);
  for (int i = 0; i < 3; ++i) scheduler.add({.text = text, .prompt_tokens = 2, .answer_tokens = 1 + i});
  EXPECT_FALSE(scheduler.has_free_slot());
  Batch batch = scheduler.next(10);
  EXPECT_EQ(batch.began, (std::vector<int>{0, 1}));
  const std::vector<ServedToken> out = scheduler.ran(batch);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_TRUE(out[0].is_last);
  EXPECT_FALSE(out[1].is_last);
  EXPECT_FALSE(scheduler.has_free_slot()) << "one is free, and one waits for it";
  batch = scheduler.next(10);
  EXPECT_EQ(batch.began, std::vector<int>{2});
}

TEST(Scheduler, APrefixIsFoundInTheSlotThatHoldsIt) {
  const Tokens one = counted(0, 30);
  const Tokens two = counted(100, 30);
  Scheduler scheduler(limits(2, 32), true);
  scheduler.add({.text = one, .prompt_tokens = 8, .answer_tokens = 2});
  scheduler.add({.text = two, .prompt_tokens = 8, .answer_tokens = 2});
  shapes(scheduler);
  EXPECT_EQ(scheduler.reused_tokens(), 0);
  // The answer's last token was never fed: nine of ten are there.
  scheduler.add({.text = two, .prompt_tokens = 15, .answer_tokens = 1});
  const Batch batch = scheduler.next(10);
  EXPECT_EQ(shape_of(batch), "1:6 x0");
  EXPECT_EQ(batch.tokens.front().position, 9);
  scheduler.ran(batch);
  EXPECT_EQ(scheduler.reused_tokens(), 9);
}

TEST(Scheduler, TheLastTokenOfAPromptIsAlwaysRead) {
  const Tokens text = counted(0, 12);
  Scheduler scheduler(limits(1, 32), true);
  scheduler.add({.text = text, .prompt_tokens = 8, .answer_tokens = 0});
  shapes(scheduler);
  scheduler.add({.text = text, .prompt_tokens = 8, .answer_tokens = 1});
  EXPECT_EQ(shapes(scheduler), std::vector<std::string>{"0:1 x0"});
}

TEST(Scheduler, WithoutPrefixCacheEverythingIsReadAgain) {
  const Tokens text = counted(0, 30);
  Scheduler scheduler(limits(1, 32), false);
  for (const int prompt : {8, 12}) {
    scheduler.add({.text = text, .prompt_tokens = prompt, .answer_tokens = 1});
    EXPECT_EQ(shapes(scheduler), std::vector<std::string>{"0:" + std::to_string(prompt) + " x0"});
  }
  EXPECT_EQ(scheduler.reused_tokens(), 0);
}

// Two conversations on one slot: each finds what the other has left of the common beginning, and no more.
TEST(Scheduler, AnOverwrittenTailIsNotFound) {
  Tokens one = counted(0, 20);
  Tokens two = one;
  for (std::size_t i = 4; i < two.size(); ++i) two[i] += 500;
  Scheduler scheduler(limits(1, 32), true);
  for (const Tokens* text : {&one, &two, &one}) {
    scheduler.add({.text = *text, .prompt_tokens = 10, .answer_tokens = 1});
    shapes(scheduler);
  }
  EXPECT_EQ(scheduler.reused_tokens(), 4 + 4);
}

TEST(Scheduler, ARequestWithoutAnswerEndsWithItsPrompt) {
  const Tokens text = counted(0, 8);
  Scheduler scheduler(limits(1, 4), true);
  scheduler.add({.text = text, .prompt_tokens = 6, .answer_tokens = 0});
  scheduler.ran(scheduler.next(1));
  const Batch batch = scheduler.next(1);
  for (const StepToken& token : batch.tokens) EXPECT_FALSE(token.wants_logits);
  const std::vector<ServedToken> out = scheduler.ran(batch);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].index, -1);
  EXPECT_TRUE(out[0].is_last);
  EXPECT_TRUE(scheduler.is_idle());
}

}  // namespace
}  // namespace moetune
