#include "tuner/launch_profile.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/small_study.h"
#include "tests/support/source_dir.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/json_schema.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

json schema() { return read_json_file(source_dir() + "/profiles/profile.schema.json"); }

LaunchProfile made() {
  const SmallStudy study;
  const auto searcher = study.searcher("random", 1);
  std::vector<Trial> trials = study.run(*searcher, 40);
  for (Trial& trial : trials) {
    if (trial.outcome != Outcome::ok) continue;
    trial.metrics["top1_agreement"].value = 0.99;
    Measurement& time = trial.metrics["tpot_ms"];
    time.low = time.value - 0.01;
    time.high = time.value + 0.01;
    time.n = 400;
    time.p99 = time.value + 0.1;
    time.stopped = "interval narrow";
  }
  ProfileContext context;
  context.model = "tiny-moe";
  context.model_hash = "0123abcd";
  context.hardware.device = "cpu";
  context.hardware.device_bytes = std::int64_t{8} << 30;
  context.hardware.memory_gb_per_s = 23.4;
  context.hardware.memory_rate_spread = 0.25;
  context.hardware.compute_capability = "9.0";
  context.hardware.multiprocessors = 132;
  context.hardware.idle_watts = 75.5;
  context.hardware.power_limit_watts = 650.0;
  context.workload = workload_named("agent");
  context.gate = "int4";
  context.space = study.space.name;
  context.space_hash = study.space.hash();
  context.searcher = "random";
  context.seed = 18446744073709551615U;
  context.default_configuration = study.default_configuration;
  const Recommendation recommendation =
      choose({trials, gate_named("int4"), study.objectives, study.default_configuration,
              accuracy_parameters(), std::nullopt});
  return make_launch_profile(context, recommendation, pareto_front(trials, study.objectives), trials);
}

TEST(LaunchProfile, SaysWhatElseRanBesideIt) {
  LaunchProfile profile;
  profile.gate = "int8";
  profile.objectives = {"tpot_ms"};
  EXPECT_FALSE(to_json_value(profile).contains("other_work"));
  profile.other_work = {"make (process 7, 1.00 cores)"};
  nlohmann::json object = to_json_value(profile);
  EXPECT_EQ(launch_profile_from_json(object, "p.json").other_work, profile.other_work);
  object["other_work"] = {7};
  EXPECT_TRUE(has_text(message_of<InputError>([&] { launch_profile_from_json(object, "p.json"); }),
                       "p.json: other_work[0]: 7 (accepted: a text)"));
}

TEST(LaunchProfile, HoldsTheChoiceItsFrontAndTheRunnerUp) {
  const LaunchProfile profile = made();
  EXPECT_EQ(profile.model, "tiny-moe");
  EXPECT_EQ(profile.recommended.configuration.size(), 5U);
  ASSERT_FALSE(profile.recommended.evidence.empty());
  EXPECT_EQ(profile.recommended.evidence.back().metric, "tpot_ms");
  EXPECT_EQ(profile.recommended.evidence.back().n, 400);
  EXPECT_FALSE(profile.reason.empty());
  EXPECT_GT(profile.front.size(), 2U);
  ASSERT_TRUE(profile.default_point.has_value());
  EXPECT_EQ(profile.default_point->trial, 0);
  ASSERT_TRUE(profile.runner_up.has_value());
  EXPECT_NE(profile.runner_up->trial, profile.recommended.trial);
  EXPECT_FALSE(profile.why_not_runner_up.empty());
  EXPECT_EQ(profile.objectives, (std::vector<std::string>{"tpot_ms", "kl_mean"}));
}

TEST(LaunchProfile, EvidenceIsAMeasurementUnderItsMetricsName) {
  Metrics metrics;
  metrics["tpot_ms"] = {.value = 2.0, .low = 1.9, .high = 2.1, .p99 = 2.5, .n = 40, .stopped = ""};
  metrics["tpot_ms"].processes = 3;
  metrics["kl_mean"].value = 0.01;
  const std::vector<Evidence> evidence = evidence_of(metrics);
  ASSERT_EQ(evidence.size(), 2U);
  EXPECT_EQ(evidence[0].metric, "kl_mean");
  EXPECT_EQ(evidence[1].p99, 2.5);
  EXPECT_EQ(evidence[1].processes, 3);
  EXPECT_EQ(to_json_value(metrics_of(evidence)), to_json_value(metrics));
}

TEST(LaunchProfile, ComesBackFromItsFile) {
  const json written = to_json_value(made());
  const std::string text = written.dump(2);
  const LaunchProfile back = launch_profile_from_json(parse_json(text, "profile.json"), "profile.json");
  EXPECT_EQ(to_json_value(back), written);
  EXPECT_EQ(back.seed, 18446744073709551615U);
  EXPECT_EQ(back.workload.tool_gap_seconds, 0.5);
  EXPECT_EQ(back.workload.slo.metric, "task_tax");
  EXPECT_EQ(back.hardware.memory_gb_per_s, 23.4);
  EXPECT_EQ(back.hardware.memory_rate_spread, 0.25);
  EXPECT_EQ(back.hardware.compute_capability, "9.0");
  EXPECT_EQ(back.hardware.multiprocessors, 132);
  EXPECT_EQ(back.hardware.idle_watts, 75.5);
  EXPECT_EQ(back.hardware.power_limit_watts, 650.0);
}

TEST(LaunchProfile, OptionalPartsMayBeAbsent) {
  LaunchProfile profile = made();
  profile.default_point.reset();
  profile.runner_up.reset();
  profile.front.clear();
  const json written = to_json_value(profile);
  EXPECT_EQ(schema_violations(written, schema()), std::vector<std::string>{});
  EXPECT_EQ(to_json_value(launch_profile_from_json(written, "profile.json")), written);
}

TEST(LaunchProfile, SaysThatTimesAreOfTheFinalRound) {
  LaunchProfile profile = made();
  EXPECT_TRUE(profile.reason.starts_with("NOT MEASURED AGAIN: ")) << "its search had no final round";
  EXPECT_FALSE(to_json_value(profile).contains("final_round"));
  profile.final_passes = 9;
  profile.ratio_to_default = Evidence{.metric = "tpot_ms",
                                      .value = 0.85,
                                      .low = 0.84,
                                      .high = 0.86,
                                      .p99 = {},
                                      .n = 9,
                                      .origin = "measured",
                                      .stopped = "",
                                      .processes = 9};
  const json written = to_json_value(profile);
  EXPECT_EQ(written["final_round"]["ratio_to_default"]["low"], 0.84);
  EXPECT_EQ(schema_violations(written, schema()), std::vector<std::string>{});
  EXPECT_EQ(to_json_value(launch_profile_from_json(written, "profile.json")), written);
}

TEST(LaunchProfile, EvidenceIsOfTheFinalRoundWhereThereIsOne) {
  Trial usual;
  usual.configuration.values["top_k"] = "8";
  usual.metrics["tpot_ms"].value = 0.437;
  usual.metrics["kl_mean"].value = 0.0;
  Trial better = usual;
  better.number = 1;
  better.configuration.values["top_k"] = "7";
  better.metrics["tpot_ms"].value = 0.254;
  const std::vector<Trial> trials{usual, better};
  Recommendation recommendation;
  recommendation.trial = 1;
  recommendation.runner_up = 0;
  FinalRound round;
  round.passes = 9;
  round.finalists.resize(2);
  round.finalists[1].trial = 1;
  round.finalists[0].metrics["tpot_ms"].value = 0.300;
  round.finalists[1].metrics["tpot_ms"].value = 0.255;
  round.finalists[1].ratio.emplace().value = 0.85;
  recommendation.final_round = round;
  ProfileContext context;
  context.default_configuration = usual.configuration;
  const LaunchProfile profile = make_launch_profile(
      context, recommendation, pareto_front(trials, objectives_named("tpot_ms,kl_mean")), trials);
  const auto tpot = [](const ProfilePoint& point) { return point.evidence.back().value; };
  EXPECT_EQ(tpot(profile.recommended), 0.255);
  EXPECT_EQ(tpot(*profile.default_point), 0.300);
  EXPECT_EQ(tpot(*profile.runner_up), 0.300);
  EXPECT_EQ(tpot(profile.front.front()), 0.254) << "the front is the search's";
  EXPECT_EQ(profile.final_passes, 9);
  EXPECT_EQ(profile.ratio_to_default->value, 0.85);
  EXPECT_EQ(profile.ratio_to_default->metric, "tpot_ms");
}

TEST(LaunchProfile, NeedsARecommendation) {
  EXPECT_THROW(make_launch_profile({}, {}, {}, {}), std::invalid_argument);
}

TEST(LaunchProfile, RefusalsNameThePlace) {
  const auto refusal = [](const std::function<void(json&)>& change) {
    json document = to_json_value(made());
    change(document);
    return message_of<InputError>([&] { launch_profile_from_json(document, "profile.json"); });
  };
  EXPECT_TRUE(has_text(refusal([](json& d) { d["schema"] = 2; }), "profile.json: schema: 2 (accepted: 1"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["gate"] = "fp8"; }), "profile.json: gate: \"fp8\""));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["front"][1]["trial"] = "x"; }),
                       "profile.json: front[1].trial: \"x\""));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["hardware"].erase("driver"); }),
                       "hardware: field 'driver' is missing"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["workload"]["rounds"] = 0; }), "workload.rounds: 0"));
  EXPECT_TRUE(
      has_text(refusal([](json& d) { d["evidence"]["tpot_ms"]["n"] = 0.5; }), "evidence.tpot_ms.n: 0.5"));
  EXPECT_TRUE(
      has_text(refusal([](json& d) { d["objectives"][0] = 3; }), "objectives[0]: 3 (accepted: a text)"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["more"] = 3; }), "unknown field \"more\""));
}

TEST(LaunchProfile, HoldsOnlyKnobsAndValuesThatTheKnobTableTakes) {
  for (const char* text : {"x", "", "99999999999999", "3"}) {
    json document = to_json_value(made());
    document["configuration"]["tensor_parallel"] = text;
    EXPECT_TRUE(has_text(
        message_of<InputError>([&] { launch_profile_from_json(document, "p.json"); }),
        "p.json: configuration.tensor_parallel: tensor_parallel: '" + std::string(text) + "' (accepted: 1, "))
        << text;
  }
  json document = to_json_value(made());
  document["front"][1]["configuration"]["top_q"] = 3;
  EXPECT_TRUE(has_text(message_of<InputError>([&] { launch_profile_from_json(document, "p.json"); }),
                       "p.json: front[1].configuration.top_q: "));
}

// Each of these was once called OK, or refused by one command alone.
TEST(LaunchProfile, RefusesWhatNoSearchCanHaveWritten) {
  const json profile = to_json_value(made());
  const auto refusal = [&](const std::function<void(json&)>& change) {
    json document = profile;
    change(document);
    return message_of<InputError>([&] { launch_profile_from_json(document, "p.json"); });
  };
  EXPECT_TRUE(has_text(refusal([](json& d) { d["objectives"] = {"tpot_ms", "x"}; }),
                       "p.json: objectives[1]: \"x\" (accepted: "));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["objectives"] = json::array(); }),
                       "p.json: objectives: [] (accepted: 1 to 4 metrics)"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["trial"] = 77; }), "p.json: trial: 77 (accepted: "));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["front"][1]["trial"] = d["front"][0]["trial"]; }),
                       "p.json: front[1].trial: "));
  for (const char* text : {"yesterday", "", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z",
                           "2026-11-30T24:00:00Z", "2026-11-30T04:31:37", "2026-11-30T04:31:37Zz"})
    EXPECT_TRUE(has_text(refusal([&](json& d) { d["measured_at"] = text; }),
                         "p.json: measured_at: \"" + std::string(text) + "\" (accepted: UTC in ISO 8601"))
        << text;
  EXPECT_TRUE(has_text(refusal([](json& d) {
                         d["final_round"] = {{"passes", 17}};
                         d["rounds"] = json::array();
                       }),
                       "p.json: rounds: [] (accepted: "));
  EXPECT_TRUE(has_text(refusal([](json& d) {
                         d["final_round"] = {{"passes", 17}};
                         d["rounds"] = {1.0, 2.0};
                       }),
                       "p.json: final_round.passes: 17 (accepted: at most 2"));
  EXPECT_TRUE(
      has_text(refusal([](json& d) { d["rounds"] = {1.0}; }), "p.json: rounds: 1 round (accepted: none"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["evidence"]["kl_mean"]["value"] = -1; }),
                       "p.json: evidence.kl_mean.value: -1 (accepted: 0 or more)"));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["evidence"]["tpot_ms"]["value"] = 0; }),
                       "p.json: evidence.tpot_ms.value: 0 (accepted: "));
  EXPECT_TRUE(has_text(refusal([](json& d) { d["front"][0]["evidence"]["top1_agreement"]["value"] = 77; }),
                       "p.json: front[0].evidence.top1_agreement.value: 77 (accepted: 0 to 1)"));
}

TEST(LaunchProfile, EveryProfileOfTheRegistryIsRead) {
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir() + "/profiles")) {
    const std::filesystem::path file = entry.path();
    if (file.extension() != ".json" || file.parent_path().filename() == "profiles") continue;
    EXPECT_NO_THROW(load_launch_profile(file.string())) << file;
    EXPECT_EQ(schema_violations(read_json_file(file.string()), schema()), std::vector<std::string>{}) << file;
    ++read;
  }
  EXPECT_GE(read, 6);
}

struct Change {
  const char* what;
  bool accepted;
  std::function<void(json&)> make;
};

TEST(ProfileSchema, SaysTheSameAsTheReader) {
  const std::vector<Change> changes{
      {"nothing", true, [](json&) {}},
      {"other schema", false, [](json& d) { d["schema"] = 2; }},
      {"no model hash", false, [](json& d) { d["model"].erase("hash"); }},
      {"more in model", false, [](json& d) { d["model"]["size"] = 1; }},
      {"hardware a list", false, [](json& d) { d["hardware"] = json::array(); }},
      {"negative memory", false, [](json& d) { d["hardware"]["host_bytes"] = -1; }},
      {"rate a text", false, [](json& d) { d["hardware"]["memory_gb_per_s"] = "fast"; }},
      {"workload without lengths", false, [](json& d) { d["workload"].erase("prompt_tokens"); }},
      {"workload without the rest", true,
       [](json& d) { d["workload"] = {{"name", "x"}, {"prompt_tokens", 5}, {"output_tokens", 1}}; }},
      {"too many sequences", false, [](json& d) { d["workload"]["sequences"] = 1025; }},
      {"long pause", false, [](json& d) { d["workload"]["tool_gap_seconds"] = 3601; }},
      {"prewarmed a number", false, [](json& d) { d["workload"]["prewarmed"] = 1; }},
      {"slo of nothing", false, [](json& d) { d["workload"]["slo"]["limit_ms"] = 0; }},
      {"negative trial", false, [](json& d) { d["trial"] = -1; }},
      {"configuration value a list", false, [](json& d) { d["configuration"]["top_k"] = json::array(); }},
      {"evidence null", true, [](json& d) { d["evidence"]["joules_per_token"] = nullptr; }},
      {"evidence half an interval", false, [](json& d) { d["evidence"]["tpot_ms"].erase("low"); }},
      {"evidence without interval", true,
       [](json& d) {
         d["evidence"]["tpot_ms"].erase("low");
         d["evidence"]["tpot_ms"].erase("high");
       }},
      {"evidence without origin", false, [](json& d) { d["evidence"]["tpot_ms"].erase("origin"); }},
      {"evidence of unknown origin", false, [](json& d) { d["evidence"]["tpot_ms"]["origin"] = "guessed"; }},
      {"gate unknown", false, [](json& d) { d["gate"] = "fp8"; }},
      {"objectives a text", false, [](json& d) { d["objectives"] = "tpot_ms"; }},
      {"no objectives", false, [](json& d) { d["objectives"] = json::array(); }},
      {"measured at a time", true, [](json& d) { d["measured_at"] = "2026-11-30T04:31:37Z"; }},
      {"measured at no time", false, [](json& d) { d["measured_at"] = "yesterday"; }},
      {"empty rounds", false, [](json& d) { d["front"][0]["rounds"] = json::array(); }},
      {"front absent", false, [](json& d) { d.erase("front"); }},
      {"front of a number", false, [](json& d) { d["front"] = json::array({1}); }},
      {"default absent", true, [](json& d) { d.erase("default"); }},
      {"default null", false, [](json& d) { d["default"] = nullptr; }},
      {"runner-up absent", true, [](json& d) { d.erase("runner_up"); }},
      {"runner-up without why", false, [](json& d) { d["runner_up"].erase("why_not"); }},
      {"synthetic a text", false, [](json& d) { d["synthetic_weights"] = "no"; }},
      {"study without seed", false, [](json& d) { d["study"].erase("seed"); }},
      {"negative seed", false, [](json& d) { d["study"]["seed"] = -5; }},
  };
  const json rules = schema();
  const json profile = to_json_value(made());
  for (const Change& change : changes) {
    json document = profile;
    change.make(document);
    bool accepted = true;
    try {
      launch_profile_from_json(document, "profile.json");
    } catch (const InputError&) {
      accepted = false;
    }
    EXPECT_EQ(accepted, change.accepted) << "reader: " << change.what;
    const ProblemList problems;  // reading on after the first mistake
    attempt([&] { launch_profile_from_json(document, "profile.json"); });
    EXPECT_EQ(problems.messages().size(), change.accepted ? 0U : 1U) << "problems: " << change.what;
    EXPECT_EQ(schema_violations(document, rules).empty(), change.accepted) << "schema: " << change.what;
  }
}

TEST(JsonFacts, EveryNamedWorkloadComesBack) {
  for (const std::string& name : workload_names()) {
    const json written = to_json_value(workload_named(name));
    EXPECT_EQ(to_json_value(workload_from_json(written, "x")), written) << name;
  }
}

TEST(JsonFacts, WorkloadsAreChecked) {
  const auto refusal = [](const char* text) {
    return message_of<InputError>([&] { workload_from_json(json::parse(text), "w.json"); });
  };
  EXPECT_TRUE(has_text(refusal(R"({"name": "x", "prompt_tokens": 0, "output_tokens": 1})"),
                       "w.json: prompt_tokens: 0"));
  EXPECT_TRUE(has_text(refusal(R"({"name": "x", "prompt_tokens": 8, "output_tokens": 1, "typed_pieces": 9})"),
                       "typed_pieces: 9"));
  EXPECT_TRUE(has_text(refusal(R"({"name": "x", "prompt_tokens": 8, "output_tokens": 1, "rounds": 3})"),
                       "round_prompt_tokens: 0 with 3 rounds"));
  EXPECT_TRUE(has_text(refusal(R"({"name": "x", "prompt_tokens": 8, "output_tokens": 1, "promt": 3})"),
                       "unknown field \"promt\""));
  EXPECT_TRUE(has_text(refusal("[]"), "an object"));
}

}  // namespace
}  // namespace moetune
