#include "tuner/measurement.h"

#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {
using nlohmann::json;

Metrics read(const char* text) { return metrics_from_json(json::parse(text), "log:3: metrics"); }
std::string refusal(const char* text) {
  return message_of<InputError>([&] { read(text); });
}

TEST(Measurement, ComesBackFromJson) {
  Measurement full;
  full.value = 0.1 + 0.2;  // not a short decimal
  full.low = 0.3;
  full.high = 0.31;
  full.p99 = 0.5;
  full.n = 400;
  full.origin = Origin::extrapolated;
  full.stopped = "interval narrow";
  Measurement many = full;
  many.processes = 9;
  EXPECT_EQ(to_json_value(many)["processes"], 9);
  EXPECT_FALSE(to_json_value(full).contains("processes")) << "one is what goes without saying";
  EXPECT_EQ(metrics_from_json({{"tpot_ms", to_json_value(many)}}, "here").at("tpot_ms").processes, 9);
  const Metrics written{{"tpot_ms", full}, {"device_bytes", Measurement{}}};
  const Metrics back = metrics_from_json(json::parse(to_json_value(written).dump()), "x");
  ASSERT_EQ(back.size(), 2U);
  const Measurement& same = back.at("tpot_ms");
  EXPECT_EQ(same.value, full.value);
  EXPECT_EQ(same.low, full.low);
  EXPECT_EQ(same.high, full.high);
  EXPECT_EQ(same.p99, full.p99);
  EXPECT_EQ(same.n, full.n);
  EXPECT_EQ(same.origin, full.origin);
  EXPECT_EQ(same.stopped, full.stopped);
  EXPECT_FALSE(back.at("device_bytes").low.has_value());
}

TEST(Measurement, ANullMetricIsAnAbsentOne) {
  EXPECT_EQ(read(R"({"kl_mean": null, "tpot_ms": {"value": 1, "n": 3, "origin": "measured"}})").size(), 1U);
}

TEST(Measurement, RefusalsNameThePlace) {
  EXPECT_TRUE(has_text(refusal(R"({"tpot_ms": 3})"), "log:3: metrics.tpot_ms: 3 (accepted: an object)"));
  EXPECT_TRUE(
      has_text(refusal(R"({"tpot_ms": {"n": 1, "origin": "measured"}})"), "field 'value' is missing"));
  EXPECT_TRUE(has_text(refusal(R"({"tpot_ms": {"value": 1, "n": -1, "origin": "measured"}})"),
                       "metrics.tpot_ms.n: -1"));
  EXPECT_TRUE(has_text(refusal(R"({"tpot_ms": {"value": 1, "n": 1, "origin": "guessed"}})"),
                       "\"guessed\" (accepted: measured, predicted, extrapolated)"));
  EXPECT_TRUE(has_text(refusal(R"({"tpot_ms": {"value": 1, "low": 2, "n": 1, "origin": "measured"}})"),
                       "half an interval"));
  EXPECT_TRUE(
      has_text(refusal(R"({"tpot_ms": {"value": 1, "low": 2, "high": 1, "n": 1, "origin": "measured"}})"),
               "is above high"));
  EXPECT_TRUE(has_text(refusal(R"({"tpot_ms": {"value": 1, "n": 1, "origin": "measured", "unit": "ms"}})"),
                       "unknown field"));
  EXPECT_TRUE(has_text(refusal("[]"), "an object"));
}

TEST(Measurement, WhatIsNotFiniteHasNoJson) {
  Measurement broken;
  broken.value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(to_json_value(broken), std::domain_error);
  broken.value = 1.0;
  broken.low = 0.0;
  broken.high = std::numeric_limits<double>::infinity();
  EXPECT_THROW(to_json_value(broken), std::domain_error);
}

}  // namespace
}  // namespace moetune
