// What a trace says of a GPU's steps follows from the costs of a miss and from what each size misses: on a
// made-up trace, with made-up costs.
#include "tuner/commands/trace_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/knobs.h"
#include "tuner/commands/trace_space.h"
#include "tuner/search_space.h"

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

const KnownParameter known_knob = [](const std::string& name, const std::string& value) {
  EngineOptions options;
  set_knob(options, name, value);
};

// The costs decide what is searched: where one slot is all there is every token misses, and cpu takes more
// than a quarter longer; with three slots next to nothing is missing, and all ways are left.
TEST(TraceSpace, LeavesOutWaysThatAreFarBehind) {
  TraceReport report = made_up();
  report.check->on_gpu->costs.cpu.miss_us = 900.0;
  const nlohmann::json document = trace_space(report, {{"top_k", "1"}, {"miss", "dma"}});
  const SearchSpace space = search_space_from_json(document, "made.json", known_knob);
  const LegalSet legal = legal_configurations(space, {});
  std::map<std::string, std::set<std::string>> ways;
  for (const std::uint64_t rank : legal.ranks) {
    const Configuration configuration = space.at(rank);
    EXPECT_EQ(configuration.values.at("top_k"), "1") << "what the trace was taken with stays";
    ways[configuration.values.at("expert_cache")].insert(configuration.values.at("miss"));
  }
  EXPECT_EQ(ways.at("0.25"), (std::set<std::string>{"pull", "dma"}));
  EXPECT_EQ(ways.at("0.75"), (std::set<std::string>{"pull", "dma", "cpu"}));
  EXPECT_EQ(ways.at("1").size(), 1U) << "nothing is missing";
  ASSERT_EQ(document.at("constraints").size(), 2U);
  EXPECT_EQ(document.at("constraints")[0].at("reason"),
            "cpu: a step is predicted to take 2.92 ms, with dma 2.12");

  report.check->on_gpu.reset();
  const nlohmann::json sizes = trace_space(report, {});
  EXPECT_EQ(sizes.at("parameters").size(), 1U) << "a processor has one way";
  EXPECT_FALSE(sizes.contains("constraints"));
  EXPECT_EQ(search_space_from_json(sizes, "made.json", known_knob).declared_size(), 4U);
}

TEST(TraceReport, SaysNothingOfAGpuWhereThereIsNone) {
  TraceReport report = made_up();
  report.check->on_gpu.reset();
  EXPECT_TRUE(to_json_value(report).at("checked").at("on_gpu").is_null());
  EXPECT_EQ(tables_of(report).find("pull"), std::string::npos);
}

}  // namespace
}  // namespace moetune
