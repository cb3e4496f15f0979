// Named workloads, and how they are cut to what a model can hold.
#include "engine/facts/workload.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

TEST(Workload, NamedOnesAreTheContracts) {
  const Workload chat = workload_named("chat");
  EXPECT_EQ(chat.prompt_tokens, 512);
  EXPECT_EQ(chat.output_tokens, 128);
  EXPECT_EQ(chat.context_tokens(), 640);
  EXPECT_EQ(workload_named("agent").context_tokens(), 2048 + 32 + 11 * (128 + 32));
  EXPECT_TRUE(has_text(message_of<InputError>([] { workload_named("chatter"); }), "chat, completion, agent"));
}

TEST(Workload, ThroughputIsAlsoThereForLargerBatches) {
  const Workload usual = workload_named("throughput");
  EXPECT_EQ(usual.sequences, 32);
  for (const int sequences : {64, 256}) {
    const Workload larger = workload_named("throughput_" + std::to_string(sequences));
    EXPECT_EQ(larger.sequences, sequences);
    EXPECT_EQ(larger.prompt_tokens, usual.prompt_tokens);
    EXPECT_TRUE(larger.poisson_arrivals);
    EXPECT_EQ(larger.slo.metric, usual.slo.metric);
  }
}

TEST(Workload, QuarterLengthsKeepTheRest) {
  const Workload agent = quarter_lengths(workload_named("agent"));
  EXPECT_EQ(agent.prompt_tokens, 512);
  EXPECT_EQ(agent.output_tokens, 8);
  EXPECT_EQ(agent.round_prompt_tokens, 32);
  EXPECT_EQ(agent.rounds, 12);
}

TEST(Workload, WhatFitsIsLeftAlone) {
  const Workload chat = fitted_to_context(workload_named("chat"), 640);
  EXPECT_EQ(chat.prompt_tokens, 512);
  EXPECT_EQ(chat.output_tokens, 128);
}

TEST(Workload, ThePromptGivesWayFirst) {
  const Workload chat = fitted_to_context(workload_named("chat"), 300);
  EXPECT_EQ(chat.prompt_tokens, 172);
  EXPECT_EQ(chat.output_tokens, 128);
  EXPECT_EQ(chat.context_tokens(), 300);
}

TEST(Workload, ShortContextsShrinkEverything) {
  for (const int context : {128, 64, 20}) {
    const Workload chat = fitted_to_context(workload_named("chat"), context);
    EXPECT_LE(chat.context_tokens(), context);
    EXPECT_GT(chat.prompt_tokens, 3 * chat.output_tokens - 4) << "the shape stays";
    EXPECT_GE(chat.output_tokens, 1);
  }
  const Workload agent = fitted_to_context(workload_named("agent"), 512);
  EXPECT_LE(agent.context_tokens(), 512);
  EXPECT_GE(agent.round_prompt_tokens, 1);
}

TEST(Workload, NothingLeftIsAnError) {
  EXPECT_TRUE(has_text(message_of<InputError>([] { fitted_to_context(workload_named("agent"), 24); }),
                       "workload agent"));
}

}  // namespace
}  // namespace moetune
