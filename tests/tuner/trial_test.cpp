#include "tuner/trial.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/tuner/support/trials.h"

namespace moetune {
namespace {

TEST(Trial, ComesBackFromJson) {
  for (std::int64_t number = 0; number < 4; ++number) {
    const Trial trial = example_trial(number);
    const Trial back = trial_from_json(nlohmann::json::parse(text_of(trial)), "here");
    EXPECT_EQ(text_of(back), text_of(trial));
    EXPECT_EQ(back.configuration, trial.configuration);
    EXPECT_EQ(back.outcome, trial.outcome);
    EXPECT_EQ(back.seconds, trial.seconds) << "to the last bit";
  }
}

TEST(Trial, HasTheContractsFields) {
  const nlohmann::json object = to_json_value(example_trial(0));
  for (const char* field :
       {"trial", "configuration", "outcome", "reason", "metrics", "seed", "seconds", "started"})
    EXPECT_TRUE(object.contains(field)) << field;
  EXPECT_EQ(object["outcome"], "ok");
  EXPECT_EQ(object["configuration"]["expert_cache"], 0.25);
}

TEST(Trial, ATurnOfAFinalRoundSaysAllAboutIt) {
  Trial trial = example_trial(3);
  EXPECT_FALSE(to_json_value(trial).contains("final_round")) << "a trial of the search has none";
  trial.turn = FinalTurn{.after = 12, .finalists = {0, 3, 11}, .pass = 4};
  const Trial back = trial_from_json(nlohmann::json::parse(text_of(trial)), "here");
  EXPECT_EQ(back.turn, trial.turn);
  EXPECT_EQ(text_of(back), text_of(trial));
  nlohmann::json object = to_json_value(trial);
  object["final_round"]["finalists"] = {0, 12};
  EXPECT_TRUE(
      has_text(message_of<InputError>([&] { trial_from_json(object, "t.jsonl:9"); }),
               "t.jsonl:9: final_round.finalists: 12 (accepted: numbers of trials before the round)"));
}

TEST(Trial, AJumpOfTheClockStaysWithIt) {
  Trial trial = example_trial(2);
  EXPECT_FALSE(to_json_value(trial).contains("clock_jump_seconds"));
  trial.clock_jump_seconds = -7200.25;
  EXPECT_EQ(trial_from_json(nlohmann::json::parse(text_of(trial)), "here").clock_jump_seconds, -7200.25);
}

TEST(Trial, EveryWrongFieldIsNamed) {
  const auto complaint = [](const char* field, const nlohmann::json& value) {
    nlohmann::json object = to_json_value(example_trial(0));
    object[field] = value;
    return message_of<InputError>([&] { trial_from_json(object, "t.jsonl:1"); });
  };
  EXPECT_TRUE(has_text(complaint("trial", -1), "t.jsonl:1: trial: -1"));
  EXPECT_TRUE(has_text(complaint("configuration", 3), "t.jsonl:1: configuration: 3"));
  EXPECT_TRUE(
      has_text(complaint("outcome", "fine"), "t.jsonl:1: outcome: \"fine\" (accepted: ok, infeasible"));
  EXPECT_TRUE(has_text(complaint("reason", 1), "t.jsonl:1: reason: 1"));
  EXPECT_TRUE(has_text(complaint("metrics", 1), "t.jsonl:1: metrics: 1"));
  EXPECT_TRUE(has_text(complaint("seed", 0.5), "t.jsonl:1: seed: 0.5"));
  EXPECT_TRUE(has_text(complaint("seconds", -1.0), "t.jsonl:1: seconds: -1.0 (accepted: 0 or more)"));
  EXPECT_TRUE(has_text(complaint("started", 7), "t.jsonl:1: started: 7"));
  EXPECT_TRUE(has_text(complaint("surprise", 7), "unknown field \"surprise\""));
}

TEST(Trial, OutcomesHaveNames) {
  for (const char* name : {"ok", "infeasible", "out_of_memory", "wrong_output", "timed_out", "crashed"})
    EXPECT_EQ(name_of(outcome_named(name, "here")), name);
}

}  // namespace
}  // namespace moetune
