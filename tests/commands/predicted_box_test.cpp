// A box of the catalogue from a run that was made up: bytes of the embedded model, times at a known share of
// the floor.
#include "tuner/commands/predicted_box.h"

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/commands/step_bytes.h"

namespace moetune {
namespace {

ModelSpec tiny() { return spec_of(*open_checkpoint("tiny-moe")); }

Configuration with(const std::string& quant, const std::string& top_k) {
  return {{{"expert_quant", quant}, {"top_k", top_k}, {"expert_cache", "1"}}};
}

Workload short_chat() {
  Workload workload;
  workload.prompt_tokens = 128;
  workload.output_tokens = 32;
  return workload;
}

TEST(StepBytes, FollowTheModelAndTheConfiguration) {
  const ModelSpec spec = tiny();
  const Workload workload = short_chat();
  const auto bytes = [&](const Configuration& configuration, double hit) {
    return step_bytes(spec, configuration, workload, DeviceKind::cpu, hit);
  };
  const StepBytes all = bytes(with("bf16", "8"), 1.0);
  EXPECT_EQ(all.link, 0.0);
  // Halving the experts per token takes away half of the routed bytes, exactly.
  const double routed = 2.0 * (all.memory - bytes(with("bf16", "4"), 1.0).memory);
  EXPECT_DOUBLE_EQ(routed, 8.0 * spec.moe_layer_count() * static_cast<double>(2 * spec.expert_parameters()));
  const StepBytes half = bytes(with("bf16", "8"), 0.5);
  EXPECT_DOUBLE_EQ(half.link, routed / 2.0);
  EXPECT_DOUBLE_EQ(half.link + half.memory, all.memory);
  EXPECT_LT(bytes(with("int4", "8"), 1.0).memory, bytes(with("int8", "8"), 1.0).memory);

  Workload many = workload;
  many.sequences = 1024;
  const double touched = step_bytes(spec, with("bf16", "8"), many, DeviceKind::cpu, 0.0).link;
  EXPECT_NEAR(touched / routed, static_cast<double>(spec.experts) / 8.0, 1e-6)
      << "a thousand sequences touch every expert";
  EXPECT_THROW(bytes({{{"no_such_knob", "1"}}}, 1.0), InputError);
}

ProfilePoint point(std::int64_t trial, const Configuration& configuration, const Workload& workload,
                   double share, double kl, double device_bytes) {
  const double floor =
      floor_ms(step_bytes(tiny(), configuration, workload, DeviceKind::cpu, 1.0), {.memory_gb_per_s = 20.0});
  ProfilePoint made{trial, configuration.values, {}};
  const auto add = [&](const char* metric, double value) {
    Evidence& evidence = made.evidence.emplace_back();
    evidence.metric = metric;
    evidence.value = value;
  };
  add("tpot_ms", floor / share);
  add("ttft_ms", 10.0 * floor / share);
  add("tokens_per_s", 100.0);
  add("kl_mean", kl);
  add("top1_agreement", 0.99);
  add("device_bytes", device_bytes);
  return made;
}

MeasuredRun made_up_run() {
  MeasuredRun run;
  run.model = tiny();
  run.profile.model = "tiny-moe";
  run.profile.model_hash = run.model.content_hash;
  run.profile.gate = "int8";
  run.profile.workload = short_chat();
  run.profile.hardware.device = "cpu";
  run.profile.hardware.memory_gb_per_s = 20.0;
  run.points = {point(0, with("bf16", "8"), short_chat(), 0.5, 0.0, 30e6),
                point(1, with("bf16", "4"), short_chat(), 0.5, 0.5, 30e6),
                point(2, with("int8", "8"), short_chat(), 0.25, 0.001, 20e6),
                point(3, with("int8", "7"), short_chat(), 0.25, 0.01, 20e6)};
  run.profile.recommended = run.points[0];
  run.profile.front = run.points;
  return run;
}

CatalogueBox catalogue_box(std::int64_t memory_bytes) {
  CatalogueBox box;
  box.name = "box";
  box.device = "A GPU";
  box.memory_bytes = memory_bytes;
  box.memory_gb_per_s = 200.0;
  box.link_gb_per_s = 50.0;
  return box;
}

TEST(PredictedBox, TenTimesTheRateIsATenthOfTheTime) {
  const MeasuredRun run = made_up_run();
  const ComparedBox box = predicted_box(run, catalogue_box(1'000'000'000), nullptr);
  ASSERT_EQ(box.missing_bytes, 0);
  // bf16 with 8 experts at half of the floor against int8 with 7 at a quarter: the faster one that meets the
  // gate.
  const double fastest = std::min(run.points[0].evidence[0].value,
                                  std::min(run.points[2].evidence[0].value, run.points[3].evidence[0].value));
  const Measurement& tpot = box.recommended.metrics.at("tpot_ms");
  EXPECT_NEAR(tpot.value, fastest / 10.0, 1e-12);
  EXPECT_EQ(tpot.origin, Origin::predicted);
  EXPECT_NEAR(box.recommended.metrics.at("tokens_per_s").value, 1000.0, 1e-9);
  EXPECT_EQ(box.front.size(), 3U) << "one trial misses the gate";
  EXPECT_TRUE(has_text(box.remark, "on 2 trials held out there it was off by 0 % (median)"));
  EXPECT_TRUE(has_text(box.remark, "MEASURED ON A CPU"));
}

TEST(PredictedBox, WhatWantsSeveralDevicesIsNotPredictedForOne) {
  MeasuredRun run = made_up_run();
  run.points[2].configuration["tensor_parallel"] = "2";
  EXPECT_EQ(predicted_box(run, catalogue_box(1'000'000'000), nullptr).front.size(), 2U);
}

TEST(PredictedBox, AShareOfThePeakIsCarriedOver) {
  const MeasuredRun run = made_up_run();
  CatalogueBox own = catalogue_box(1'000'000'000);
  own.memory_gb_per_s = 40.0;  // measured: 20, half of its peak
  const ComparedBox box = predicted_box(run, catalogue_box(1'000'000'000), &own);
  const ComparedBox whole = predicted_box(run, catalogue_box(1'000'000'000), nullptr);
  EXPECT_NEAR(box.recommended.metrics.at("tpot_ms").value,
              2.0 * whole.recommended.metrics.at("tpot_ms").value, 1e-12);
}

TEST(PredictedBox, WhatDoesNotFitSaysByHowMuch) {
  const MeasuredRun run = made_up_run();
  EXPECT_EQ(predicted_box(run, catalogue_box(15'000'000), nullptr).missing_bytes, 5'000'000);
  const ComparedBox middle = predicted_box(run, catalogue_box(25'000'000), nullptr);
  EXPECT_EQ(middle.missing_bytes, 0);
  EXPECT_EQ(middle.recommended.configuration.values.at("expert_quant"), "int8")
      << "the larger ones do not fit";
}

}  // namespace
}  // namespace moetune
