#include "tuner/targets/synthetic_target.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {
using nlohmann::json;

TargetResult measured(const std::string& top_k, const std::string& quant, std::uint64_t seed = 1) {
  return make_synthetic_target(json::object())
      ->measure({{{"top_k", top_k}, {"expert_quant", quant}}}, seed, {});
}
double value(const TargetResult& result, const std::string& metric) {
  return result.metrics.at(metric).value;
}

TEST(SyntheticTarget, IsAPureFunctionOfConfigurationAndSeed) {
  const std::string first = to_json_value(measured("6", "int8").metrics).dump();
  EXPECT_EQ(to_json_value(measured("6", "int8").metrics).dump(), first);
  EXPECT_NE(to_json_value(measured("6", "int8", 2).metrics).dump(), first);
  EXPECT_NE(to_json_value(measured("6", "int4").metrics).dump(), first);
}

TEST(SyntheticTarget, FewerExpertsAreFasterAndLessAccurate) {
  for (int top_k = 1; top_k < 8; ++top_k) {
    const TargetResult fewer = measured(std::to_string(top_k), "bf16");
    const TargetResult more = measured(std::to_string(top_k + 1), "bf16");
    EXPECT_LT(value(fewer, "tpot_ms"), value(more, "tpot_ms"));
    EXPECT_GT(value(fewer, "kl_mean"), value(more, "kl_mean"));
  }
}

TEST(SyntheticTarget, FewerBitsAreFasterSmallerAndLessAccurate) {
  const TargetResult narrow = measured("8", "int4");
  const TargetResult wide = measured("8", "bf16");
  EXPECT_LT(value(narrow, "tpot_ms"), value(wide, "tpot_ms"));
  EXPECT_LT(value(narrow, "device_bytes"), value(wide, "device_bytes"));
  EXPECT_GT(value(narrow, "kl_mean"), value(wide, "kl_mean"));
}

TEST(SyntheticTarget, AMoodDependsOnTheSeedAlone) {
  const auto slowness = [](const char* top_k, std::uint64_t seed) {
    const Configuration configuration{{{"top_k", top_k}}};
    const double moody =
        value(make_synthetic_target({{"mood", 0.8}})->measure(configuration, seed, {}), "tpot_ms");
    return moody / value(make_synthetic_target(json::object())->measure(configuration, seed, {}), "tpot_ms");
  };
  double slowest = 1.0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_NEAR(slowness("7", seed), slowness("3", seed), 1e-12);
    EXPECT_GE(slowness("7", seed), 1.0);
    slowest = std::max(slowest, slowness("7", seed));
  }
  EXPECT_GT(slowest, 1.5);
}

TEST(SyntheticTarget, ASlowSearchIsNotOneOfTimingAlone) {
  json settings{{"search_factor", {{"when", {{"top_k", 8}}}, {"factor", 1.5}}}};
  const auto time = [&](const char* top_k) {
    return value(make_synthetic_target(settings)->measure({{{"top_k", top_k}}}, 1, {}), "tpot_ms");
  };
  const double slow = time("8");
  const double other = time("7");
  settings["timing_only"] = true;
  EXPECT_NEAR(slow / time("8"), 1.5, 1e-12);
  EXPECT_EQ(other, time("7"));
  const TargetResult result = make_synthetic_target(settings)->measure({{{"top_k", "8"}}}, 1, {});
  EXPECT_FALSE(result.metrics.contains("kl_mean"));
}

TEST(SyntheticTarget, WrongSettingsAreRefused) {
  const auto complaint = [](const json& settings) {
    return message_of<InputError>([&] { make_synthetic_target(settings); });
  };
  EXPECT_TRUE(has_text(complaint({{"dealy_ms", 3}}), "unknown field \"dealy_ms\""));
  EXPECT_TRUE(has_text(complaint({{"fail", {{{"when", json::object()}, {"how", "explode"}}}}}),
                       "\"explode\" (accepted: crash, kill"));
  EXPECT_TRUE(has_text(complaint({{"setup", "bad_input"}}), "'nowhere'"));
}

}  // namespace
}  // namespace moetune
