// Every mistake of a file in one reading, each once, and none that only follows from another.
#include "tuner/problems.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/search_space.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

using Messages = std::vector<std::string>;

void known_knob(const std::string& name, const std::string& value) {
  if (name != "top_k" && name != "expert_quant")
    throw InputError("knob", "'" + name + "'", "top_k, expert_quant");
  if (name == "top_k" && value.size() > 2) throw InputError("top_k", "'" + value + "'", "1 .. 64");
}

template <class Read>
Messages problems_of(Read read) {
  const ProblemList problems;
  attempt(read);
  return problems.messages();
}

Messages problems_of_space(const std::string& text) {
  return problems_of(
      [&] { search_space_from_json(parse_json(text, "s.json"), "s.json", known_knob, {{"native", 8}}); });
}

Messages problems_of_workload(const std::string& text) {
  return problems_of([&] { workload_from_json(parse_json(text, "w.json"), "w.json"); });
}

TEST(Problems, WithoutAListTheFirstMistakeEndsTheReading) {
  EXPECT_EQ(message_of<InputError>([] { attempt([] { refuse("a", "1", "2"); }); }), "a: 1 (accepted: 2)");
}

TEST(Problems, AnInnerListLeavesTheOuterOneAlone) {
  const ProblemList outer;
  EXPECT_EQ(problems_of([] { refuse("a", "1", "2"); }).size(), 1U);
  EXPECT_TRUE(outer.messages().empty());
  refuse("b", "1", "2");
  EXPECT_EQ(outer.messages(), (Messages{"b: 1 (accepted: 2)"}));
}

TEST(Problems, OfASpaceInItsFormAndInItsMeaning) {
  EXPECT_EQ(
      problems_of_space(R"({"nmae": "s", "parameters": [
      {"name": "topk", "kind": "ordinal", "values": [1, 2, 3]},
      {"name": "top_k", "kind": "cardinal", "values": [1, 1, 1000]},
      {"name": "expert_quant", "kind": "categorical", "values": ["int8"], "active_if": {"router": ["cpu"]}}],
      "constraints": [{"forbid": {"top_k": [7]}}]})"),
      (Messages{
          "s.json: unknown field \"nmae\" (accepted: $schema, name, description, parameters, constraints)",
          "s.json: field 'name' is missing",
          "s.json: parameters[1].kind: \"cardinal\" (accepted: categorical, ordinal)",
          "s.json: parameters[1].values[1]: 1 is there twice (accepted: every value once)",
          "s.json: constraints[0]: field 'reason' is missing",
          "s.json: parameters[0].values[0]: knob: 'topk' (accepted: top_k, expert_quant)",
          "s.json: parameters[1].values[2]: top_k: '1000' (accepted: 1 .. 64)",
          "s.json: parameters[2].active_if.router: 'router' is not an earlier parameter (accepted: topk, "
          "top_k)",
          "s.json: constraints[0].forbid.top_k[0]: 7 is not a value of top_k in this space (accepted: 1, "
          "1000)"}));
}

TEST(Problems, OfASpaceThatIsNothingLikeOne) {
  EXPECT_EQ(problems_of_space("[1, 2]"), (Messages{"s.json: [1,2] (accepted: an object)"}));
  EXPECT_EQ(
      problems_of_space(
          R"({"name": "s", "parameters": [7, {"name": "top_k", "kind": "ordinal", "values": "1..x"}]})"),
      (Messages{
          "s.json: parameters[0]: 7 (accepted: an object)",
          "s.json: parameters[1].values: nothing here is called 'x' (accepted: a whole number, native)"}));
  EXPECT_EQ(problems_of_space(R"({"name": "s", "parameters": []})"),
            (Messages{"s.json: parameters: 0 parameters (accepted: 1 to 64 parameters)"}));
}

TEST(Problems, OfAWorkloadWithoutThoseThatOnlyFollow) {
  EXPECT_EQ(
      problems_of_workload(
          R"({"name": 3, "prompt_tokens": 0, "typed_pieces": 8, "rounds": "x", "round_prompt_tokens": 0})"),
      (Messages{"w.json: name: 3 (accepted: a text)",
                "w.json: prompt_tokens: 0 (accepted: a whole number from 1 to 16777216)",
                "w.json: field 'output_tokens' is missing",
                "w.json: rounds: \"x\" (accepted: a whole number from 1 to 64)"}));
  EXPECT_EQ(
      problems_of_workload(R"({"name": "w", "prompt_tokens": 4, "output_tokens": 1, "typed_pieces": 8})"),
      (Messages{"w.json: typed_pieces: 8 (accepted: a whole number from 1 to 4)"}));
}

TEST(Problems, OfALogLineByLine) {
  Trial trial;
  trial.outcome = Outcome::ok;
  std::string text;
  for (trial.number = 0; trial.number < 4; ++trial.number) text += to_log_line(trial);
  text[text.find("\"ok\"") + 1] = 'k';       // line 1
  text[text.find("\"trial\":2") + 8] = '7';  // line 3
  EXPECT_EQ(problems_of([&] { parse_trial_log(text, "t.jsonl"); }),
            (Messages{"t.jsonl:1: the line is damaged: its checksum does not hold (accepted: the line as "
                      "moetune wrote it; lines "
                      "after it are still there)",
                      "t.jsonl:3: the line is damaged: its checksum does not hold (accepted: the line as "
                      "moetune wrote it; lines "
                      "after it are still there)"}));
}

}  // namespace
}  // namespace moetune
