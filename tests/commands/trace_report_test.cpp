// What a trace says of a GPU's steps follows from the costs of a miss and from what each size misses: on a
// made-up trace, with made-up costs.
#include "tuner/commands/trace_report.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

// Two sequences, one layer of 4 experts, one expert a token, a prompt of one token: 0 1 2 0 1 2 ...
TraceReport made_up() {
  TraceReport report;
  RoutingTrace& trace = report.trace;
  trace.layers = 1;
  trace.experts = 4;
  trace.k = 1;
  trace.expert_bytes = 1 << 20;
  trace.kind_names = {"one"};
  for (std::int32_t token = 0; token < 26; ++token) {
    const std::int32_t position = token % 13;
    trace.token_ids.push_back(position);
    trace.sequences.push_back(token / 13);
    trace.positions.push_back(position);
    trace.steps.push_back(token);
    trace.decodes.push_back(position > 0 ? 1 : 0);
    trace.kinds.push_back(0);
    trace.expert_ids.push_back(position % 3);
    trace.expert_weights.push_back(1.0F);
    trace.foreseen.push_back(-1);
  }
  report.analysis = analyse_trace(trace);
  report.check.emplace();
  report.check->resident_ms = 7.0;
  report.check->calibrated_at = {1, 3};
  report.check->on_gpu =
      TraceCheck::OnGpu{.decode_ms = 2.0,
                        .costs = {.expert_bytes = 1 << 20,
                                  .dma = {.layer_us = 15.0, .missing_layer_us = 0.0, .miss_us = 100.0},
                                  .pull = {.layer_us = 5.0, .missing_layer_us = 0.0, .miss_us = 120.0},
                                  .cpu = {.layer_us = 15.0, .missing_layer_us = 10.0, .miss_us = 50.0}}};
  return report;
}

TEST(TraceReport, PredictsAStepByWhatIsMissingAndByTheWayItIsHandled) {
  const TraceReport report = made_up();
  // With one slot each of the three experts is missing whenever it is asked for, with three none is.
  EXPECT_DOUBLE_EQ(report.predicted_step_ms(1, MissHandling::dma), 2.0 + 0.015 + 0.1);
  EXPECT_DOUBLE_EQ(report.predicted_step_ms(1, MissHandling::pull), 2.0 + 0.005 + 0.12);
  EXPECT_NEAR(report.predicted_step_ms(3, MissHandling::pull), 2.005 + 0.12 * 2 / 24, 1e-9)
      << "the first time only";
  const nlohmann::json gpu = to_json_value(report).at("checked").at("on_gpu");
  EXPECT_EQ(gpu.at("measured_costs").at("pull").at("miss_us"), 120.0);
  EXPECT_EQ(gpu.at("missing_experts_of_a_layer_from_which").at("dma_beats_pull"), 1);
  EXPECT_EQ(gpu.at("missing_experts_of_a_layer_from_which").at("cpu_beats_dma"), 1);
  for (const nlohmann::json& step : gpu.at("step_ms")) {
    EXPECT_NEAR(step.at("predicted_dma").get<double>(),
                report.predicted_step_ms(step.at("slots").get<int>(), MissHandling::dma), 1e-4);
    EXPECT_NEAR(step.at("predicted_pull").get<double>(),
                report.predicted_step_ms(step.at("slots").get<int>(), MissHandling::pull), 1e-4);
  }
  std::string text = tables_of(report);
  std::ranges::replace(text, '\n', ' ');  // it is wrapped
  EXPECT_NE(text.find("dma costs less than pull where 1 or more of 1 experts"), std::string::npos) << text;
  EXPECT_NE(text.find("Cheapest for a layer by missing experts: cpu up to 1."), std::string::npos) << text;
}

TEST(TraceReport, SaysNothingOfAGpuWhereThereIsNone) {
  TraceReport report = made_up();
  report.check->on_gpu.reset();
  EXPECT_TRUE(to_json_value(report).at("checked").at("on_gpu").is_null());
  EXPECT_EQ(tables_of(report).find("pull"), std::string::npos);
}

}  // namespace
}  // namespace moetune
