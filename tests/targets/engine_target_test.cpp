// The engine target: from a configuration to the metrics of the contract, and the outcomes of those that
// cannot run.
#include "tuner/targets/engine_target.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/cache_folder.h"
#include "tests/support/message_of.h"
#include "tests/support/small_presets.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tuner/targets/arrivals.h"

namespace moetune {
namespace {

EngineTargetSetup setup_for(const std::string& model) {
  EngineTargetSetup setup;
  setup.model_directory = source_dir() + "/" + model;
  setup.workload = {.name = "short", .prompt_tokens = 24, .output_tokens = 9};
  setup.latency_seconds = 0.1;
  return setup;
}

class EngineTargetTest : public ::testing::Test {
 protected:
  TargetResult measure(EngineTarget& target, const std::map<std::string, std::string>& values) {
    words_.clear();
    return target.measure({values}, 1, [this](const std::string& words) { words_ += words + "\n"; });
  }

  testing::CacheFolder cache_;
  std::string words_;  // of progress
};

TEST(EngineTargetSetup, SurvivesItsTripToTheWorker) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.calibration_file = "text.txt";
  setup.device = DeviceKind::cuda;
  setup.device_name = "NVIDIA H200";
  setup.threads = 2;
  setup.device_memory_bytes = 12345678901;
  setup.usd_per_hour = 2.5;
  setup.timing_only = true;
  nlohmann::json object = to_json_value(setup);
  EXPECT_EQ(object.at("device"), "cuda");
  EXPECT_EQ(to_json_value(engine_target_setup_from_json(object, "setup")), object);
  object["device"] = "gpu";
  EXPECT_TRUE(has_text(message_of<InputError>([&] { engine_target_setup_from_json(object, "setup"); }),
                       "setup: device: 'gpu' (accepted: cpu, cuda)"));
}

TEST(EngineTargetSetup, OptionsComeFromTheKnobTable) {
  const EngineOptions options =
      options_of({{{"top_k", "3"}, {"expert_quant", "int4"}, {"expert_cache", "0.5"}}}, DeviceKind::cpu, 2);
  EXPECT_EQ(options.top_k, 3);
  EXPECT_EQ(options.expert_quant, NumberType::int4);
  EXPECT_EQ(options.expert_cache_fraction, 0.5);
  EXPECT_EQ(options.cpu_threads, 2);
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { options_of({{{"topk", "3"}}}, DeviceKind::cpu, 0); }), "topk"));
}

TEST_F(EngineTargetTest, MeasuresEveryMetricOfTheContract) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.usd_per_hour = 3.6;
  EngineTarget target(setup, {});
  const TargetResult result = measure(target, {{"top_k", "7"}, {"expert_cache", "0.5"}});
  ASSERT_EQ(result.outcome, Outcome::ok) << result.reason;
  for (const char* name : {"tpot_ms", "ttft_ms", "tokens_per_s", "kl_mean", "kl_p99", "top1_agreement",
                           "perplexity_ratio", "route_flip_rate", "router_mass", "output_snr_db", "cache_hit",
                           "device_bytes", "host_bytes", "usd_per_mtok"})
    EXPECT_TRUE(result.metrics.contains(name)) << name;
  EXPECT_EQ(result.metrics.at("kl_mean").n, 4096);
  EXPECT_GT(result.metrics.at("kl_mean").value, 0.001);
  EXPECT_LT(result.metrics.at("kl_mean").value, 0.02);
  EXPECT_LT(result.metrics.at("cache_hit").value, 1.0);
  EXPECT_GT(result.metrics.at("host_bytes").value, 0.0);
  // 3.6 USD an hour are 0.001 a second.
  EXPECT_NEAR(result.metrics.at("usd_per_mtok").value, 1000.0 / result.metrics.at("tokens_per_s").value,
              1e-6);

  // Where experts lie does not change the output: it is not scored again.
  const TargetResult resident = measure(target, {{"top_k", "7"}, {"expert_cache", "1"}});
  EXPECT_EQ(resident.metrics.at("kl_mean").value, result.metrics.at("kl_mean").value);
  EXPECT_EQ(words_.find("accuracy"), std::string::npos) << words_;
  EXPECT_EQ(resident.metrics.at("cache_hit").value, 1.0);
  EXPECT_GT(resident.metrics.at("device_bytes").value, result.metrics.at("device_bytes").value);
}

TEST_F(EngineTargetTest, TimingAloneNeedsNoReference) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.timing_only = true;
  EngineTarget target(setup, [this](const std::string& words) { words_ += words; });
  EXPECT_EQ(words_, "") << "no reference is made";
  const TargetResult result = measure(target, {{"top_k", "7"}, {"expert_cache", "0.5"}});
  ASSERT_EQ(result.outcome, Outcome::ok) << result.reason;
  for (const char* name : {"tpot_ms", "ttft_ms", "tokens_per_s", "cache_hit", "device_bytes", "host_bytes"})
    EXPECT_TRUE(result.metrics.contains(name)) << name;
  EXPECT_FALSE(result.metrics.contains("kl_mean"));
  EXPECT_EQ(words_.find("accuracy"), std::string::npos) << words_;
}

TEST_F(EngineTargetTest, WhatCannotRunIsAnOutcomeWithAReason) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.device_memory_bytes = 9 << 20;
  EngineTarget target(setup, {});
  const TargetResult large = measure(target, {{"expert_cache", "1"}});
  EXPECT_EQ(large.outcome, Outcome::infeasible);
  EXPECT_TRUE(has_text(large.reason, "missing"));
  const TargetResult split = measure(target, {{"tensor_parallel", "4"}});
  EXPECT_EQ(split.outcome, Outcome::infeasible);
  EXPECT_TRUE(has_text(split.reason, "tensor_parallel"));
  const TargetResult unknown = measure(target, {{"expert_quant", "int3"}});
  EXPECT_EQ(unknown.outcome, Outcome::infeasible);
  EXPECT_EQ(measure(target, {{"expert_cache", "0.25"}}).outcome, Outcome::ok) << "the target stays usable";
}

// Rules that change the routing are judged like a number type, rerouting with the cache as it is when it is
// timed.
TEST_F(EngineTargetTest, RoutingRulesAreJudgedLikeQuantization) {
  EngineTarget target(setup_for("engine/models/tiny-moe"), {});
  const auto metrics_of = [&](const std::map<std::string, std::string>& values) {
    const TargetResult result = measure(target, values);
    EXPECT_EQ(result.outcome, Outcome::ok) << result.reason;
    return result.metrics;
  };
  const Metrics plain = metrics_of({{"expert_cache", "0.5"}});
  EXPECT_EQ(plain.at("route_flip_rate").value, 0.0);
  EXPECT_NEAR(plain.at("router_mass").value, 1.0, 1e-6);
  EXPECT_FALSE(plain.contains("prefetch_in_vain"));

  const Metrics dropped = metrics_of({{"top_k_rule", "threshold:0.9"}});
  EXPECT_GT(dropped.at("kl_mean").value, plain.at("kl_mean").value);
  EXPECT_LT(dropped.at("router_mass").value, 0.99);
  EXPECT_EQ(dropped.at("kl_mean").n, plain.at("kl_mean").n);
  const Metrics shared_out = metrics_of({{"top_k", "6"}, {"top_k_rule", "per_layer"}});
  EXPECT_LT(shared_out.at("router_mass").value, 1.0);
  EXPECT_GT(shared_out.at("kl_mean").value, 0.0);

  const Metrics rerouted = metrics_of({{"reroute_margin", "0.15"}, {"expert_cache", "0.5"}});
  EXPECT_GT(rerouted.at("route_flip_rate").value, 0.0);
  EXPECT_LT(rerouted.at("router_mass").value, 1.0);
  const Metrics resident = metrics_of({{"reroute_margin", "0.15"}, {"expert_cache", "1"}});
  EXPECT_EQ(resident.at("route_flip_rate").value, 0.0) << "nothing is missing";

  const Metrics prefetched = metrics_of({{"prefetch", "next_gate"}, {"expert_cache", "0.5"}});
  EXPECT_EQ(prefetched.at("kl_mean").value, plain.at("kl_mean").value);
  EXPECT_GT(prefetched.at("prefetch_in_vain").value, 0.0);
  // How many hits either brings is a matter of engine/route_changes_test.cpp and prefetch_test.cpp, which
  // compare over the same tokens: a target runs as many as time allows.
}

TEST_F(EngineTargetTest, EveryGoldenLayoutCanBeMeasured) {
  for (const char* layout : {"deepseek_v3_yarn", "mixtral", "qwen3_moe_yarn"}) {
    EngineTarget target(setup_for(std::string("tests/golden/") + layout), {});
    const TargetResult result = measure(target, {{"top_k", "1"}});
    ASSERT_EQ(result.outcome, Outcome::ok) << layout << ": " << result.reason;
    EXPECT_GE(result.metrics.at("kl_mean").n, 2048) << layout;
    EXPECT_GT(result.metrics.at("kl_mean").value, 0.0) << layout;
  }
}

// Generated weights have no accuracy; what stands in falls with the number type and the number of experts.
TEST_F(EngineTargetTest, SyntheticModelsHaveStandInsForAccuracy) {
  for (const std::string& model : testing::small_presets()) {
    EngineTargetSetup setup = setup_for("");
    setup.model_directory = model;
    EngineTarget target(setup, {});
    const TargetResult own = measure(target, {});
    ASSERT_EQ(own.outcome, Outcome::ok) << model << ": " << own.reason;
    for (const char* unknown :
         {"kl_mean", "kl_p99", "kl_floor", "top1_agreement", "perplexity_ratio", "route_flip_rate"})
      EXPECT_FALSE(own.metrics.contains(unknown)) << model << ": " << unknown;
    EXPECT_GT(own.metrics.at("output_snr_db").value, 150.0) << model;
    const TargetResult quantized = measure(target, {{"dense_quant", "int8"}});
    ASSERT_EQ(quantized.outcome, Outcome::ok) << model << ": " << quantized.reason;
    EXPECT_LT(quantized.metrics.at("output_snr_db").value, 60.0) << model;
    if (model.starts_with("llama")) {
      EXPECT_FALSE(own.metrics.contains("router_mass"));
      continue;
    }
    EXPECT_EQ(own.metrics.at("router_mass").value, 1.0) << model;
    const TargetResult fewer = measure(target, {{"top_k", "1"}});
    ASSERT_EQ(fewer.outcome, Outcome::ok) << model << ": " << fewer.reason;
    EXPECT_LT(fewer.metrics.at("router_mass").value, 0.95) << model;
    EXPECT_LT(fewer.metrics.at("output_snr_db").value, quantized.metrics.at("output_snr_db").value) << model;
  }
}

// Refused where recording made tokens too much longer, as on a busy machine; then in words.
TEST_F(EngineTargetTest, RecordingAloneIsTheTaxOrWhyThereIsNone) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.timing_only = true;
  setup.recording_only = true;
  setup.workload.poisson_arrivals = true;  // whose rate nobody needs for it
  EngineTarget target(setup, {});
  const TargetResult result = measure(target, {{"expert_cache", "0.5"}});
  ASSERT_EQ(result.outcome, Outcome::ok) << result.reason;
  EXPECT_EQ(result.metrics.empty(), !result.reason.empty()) << result.reason;
  double sum_ms = 0.0;
  for (const auto& [name, measurement] : result.metrics) {
    EXPECT_TRUE(name.starts_with("tax_")) << name << ": times of a recorded run are no one's";
    EXPECT_TRUE(has_text(measurement.stopped, "a process of its own"));
    if (name != "tax_share") sum_ms += name == "tax_token_ms" ? -measurement.value : measurement.value;
  }
  EXPECT_NEAR(sum_ms, 0.0, 1e-6);
}

TEST_F(EngineTargetTest, WhatCannotEndInTimeIsGivenUp) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.timing_only = true;
  setup.longest_run_seconds = 1e-9;
  EngineTarget target(setup, {});
  const TargetResult result = measure(target, {});
  EXPECT_EQ(result.outcome, Outcome::timed_out);
  EXPECT_TRUE(has_text(result.reason, "one run of the workload has spent"));
  EXPECT_TRUE(has_text(result.reason, "on prompts and may take 1e-09 s: it is run several times within"));
  setup.longest_run_seconds = 0.0;
  ASSERT_TRUE(target.take_over({{"target", "engine"}, {"engine", to_json_value(setup)}}));
  EXPECT_EQ(measure(target, {}).outcome, Outcome::ok) << "the target stays usable";
}

// The rate of arrivals is the default's; where that is known to be too slow, the one at hand's.
TEST_F(EngineTargetTest, ADefaultThatIsTooSlowForARateLeavesItToTheNext) {
  const TemporaryDirectory folder;
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  setup.timing_only = true;
  setup.study_folder = folder.path().string();
  setup.workload = {.name = "crowd", .prompt_tokens = 8, .output_tokens = 4, .sequences = 2};
  setup.workload.poisson_arrivals = true;
  setup.longest_run_seconds = 1e-9;
  {
    EngineTarget target(setup, {});
    EXPECT_EQ(measure(target, {}).outcome, Outcome::timed_out);
  }
  EXPECT_TRUE(has_text(read_why_no_default_rate(setup.study_folder), "one run of the workload has spent"));
  EXPECT_EQ(read_arrival_rate(setup.study_folder).per_s, 0.0);
  setup.longest_run_seconds = 0.0;
  EngineTarget target(setup, {});
  const TargetResult first = measure(target, {{"top_k", "2"}});
  ASSERT_EQ(first.outcome, Outcome::ok) << first.reason;
  const ArrivalRate rate = read_arrival_rate(setup.study_folder);
  EXPECT_GT(rate.per_s, 0.0);
  EXPECT_TRUE(
      rate.note.starts_with("0.8 of what top_k=2 completes, not of the default configuration: one run"))
      << rate.note;
  EngineTarget next(setup, {});
  const TargetResult second = measure(next, {{"top_k", "3"}});
  for (const TargetResult* result : {&first, &second}) {
    EXPECT_EQ(result->metrics.at("arrivals_per_s").value, rate.per_s);
    EXPECT_EQ(result->metrics.at("arrivals_per_s").stopped, rate.note) << "whose it is goes with the number";
  }
}

TEST_F(EngineTargetTest, ABadModelIsTheSetupsFault) {
  EXPECT_TRUE(
      has_text(message_of<InputError>([] { EngineTarget(setup_for("tests/golden"), {}); }), "config.json"));
}

// Another workload of the same model: nothing is loaded, nothing is scored again.
TEST_F(EngineTargetTest, TakesOverAnotherWorkload) {
  EngineTargetSetup setup = setup_for("engine/models/tiny-moe");
  EngineTarget target(setup, {});
  const TargetResult before = measure(target, {{"top_k", "6"}});
  ASSERT_EQ(before.outcome, Outcome::ok) << before.reason;
  EXPECT_NE(words_.find("loading"), std::string::npos) << words_;
  setup.workload = {.name = "several", .prompt_tokens = 40, .output_tokens = 5, .sequences = 3};
  ASSERT_TRUE(target.take_over({{"target", "engine"}, {"engine", to_json_value(setup)}}));
  const TargetResult after = measure(target, {{"top_k", "6"}});
  ASSERT_EQ(after.outcome, Outcome::ok) << after.reason;
  EXPECT_EQ(words_.find("loading"), std::string::npos) << words_;
  EXPECT_EQ(after.metrics.at("kl_mean").value, before.metrics.at("kl_mean").value);
  EXPECT_GT(after.metrics.at("device_bytes").value, before.metrics.at("device_bytes").value)
      << "three contexts need more";

  EngineTargetSetup other = setup;
  other.threads = 1;
  EXPECT_FALSE(target.take_over({{"target", "engine"}, {"engine", to_json_value(other)}}));
  EXPECT_FALSE(target.take_over({{"target", "synthetic"}, {"synthetic", nlohmann::json::object()}}));
}

}  // namespace
}  // namespace moetune
