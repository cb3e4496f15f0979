#include "tuner/commands/tax_text.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

Breakdown breakdown() {
  Breakdown one;
  one.token_ns = 1e6;
  one.recorded_ns = 1.02e6;
  one.n = 9;
  one.exposed_ns = {0.0, 1e5, 5e4, 1e5, 1e5, 7e5};
  one.row_ns[static_cast<std::size_t>(Row::router)] = 1e5;
  one.row_ns[static_cast<std::size_t>(Row::attention)] = 7e5;
  one.unexplained_ns = -5e4;
  return one;
}

TEST(TaxText, TableHasPartsTaxAndAll) {
  const Breakdown one = breakdown();
  const std::string text = breakdown_table({{"decode", &one}});
  EXPECT_TRUE(has_text(text, "expert loading    0.1000   10.0 %  ##"));
  EXPECT_TRUE(has_text(text, "tax             0.2500   25.0 %"));
  EXPECT_TRUE(has_text(text, "unexplained      -0.0500   -5.0 %"));
  EXPECT_TRUE(has_text(text, "all              1.000  100.0 %"));
  EXPECT_EQ(text.find("hidden"), std::string::npos);
}

TEST(TaxText, HiddenTimeAndOtherModelsHaveTheirColumns) {
  Breakdown one = breakdown();
  one.hidden_ns[static_cast<std::size_t>(Part::expert_loading)] = 2e5;
  const Breakdown dense = breakdown();
  const std::string text = breakdown_table({{"decode", &one}, {"dense", &dense}});
  EXPECT_TRUE(has_text(text, "hidden ms"));
  EXPECT_TRUE(has_text(text, "dense ms"));
  EXPECT_TRUE(has_text(text, "0.2000"));
}

TEST(TaxText, JsonPartsAddUp) {
  const nlohmann::json object = to_json_value(breakdown());
  double sum = object["unexplained_ms"];
  for (const auto& [part, ms] : object["exposed_ms"].items()) sum += ms.get<double>();
  EXPECT_NEAR(sum, object["token_ms"].get<double>(), 1e-12);
  EXPECT_DOUBLE_EQ(object["tax_ms"].get<double>(), 0.25);
  Breakdown refused = breakdown();
  refused.refused = "too slow";
  const nlohmann::json why = to_json_value(refused);
  EXPECT_EQ(why["refused"], "too slow");
  EXPECT_FALSE(why.contains("exposed_ms"));
}

TEST(TaxText, RoundsAddUpTheirTax) {
  const std::string text = rounds_table({{breakdown()}, {breakdown()}, {breakdown()}});
  EXPECT_TRUE(has_text(text, "0.7500"));
}

TEST(TaxText, AWholeTaskHasTheNamesOfTrials) {
  EXPECT_EQ(task_text(breakdown()),
            "The whole task: 1.000 ms (task_ms of a trial), of it tax 0.2500 ms, 25.0 % (task_tax_ms).");
}

PhaseTax phase() {
  PhaseTax made;
  made.typical = breakdown();
  made.token_spread = RunSpread{.ns = {0.98e6, 1.0004e6}, .runs = 9};
  made.tax_spread = RunSpread{.ns = {2.4e5, 2.7e5}, .runs = 2, .is_range = true};
  return made;
}

TEST(TaxText, SweptNumbersHaveTheirIntervals) {
  const SweepPoint point{.value = 4, .objection = "", .decode = phase(), .prefill = phase()};
  const std::string text = sweep_table("sequences", {point});
  EXPECT_TRUE(has_text(text, "1.000 (0.980-1.000)  0.2500 (0.2400-0.2700, r)  25.0 %")) << text;
  EXPECT_TRUE(has_text(text, "step ms"));
  EXPECT_TRUE(has_text(text, "prompt ms"));
  const nlohmann::json decode = to_json_value({point}, "sequences")[0]["decode"];
  EXPECT_DOUBLE_EQ(decode["token_interval"]["low_ms"].get<double>(), 0.98);
  EXPECT_EQ(decode["token_interval"]["runs"], 9);
  EXPECT_EQ(decode["tax_interval"]["is_range"], true);
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  EXPECT_LE(widest, 80U) << text;
}

TEST(TaxText, SweepSaysWhatDoesNotFit) {
  const SweepPoint fits{.value = 1, .objection = "", .decode = phase(), .prefill = phase()};
  const SweepPoint too_large{.value = 32, .objection = "does not fit", .decode = {}, .prefill = {}};
  const std::string text = sweep_table("sequences", {fits, too_large});
  EXPECT_TRUE(has_text(text, "does not fit"));
  EXPECT_TRUE(has_text(text, "25.0 %  #####"));
}

TEST(TaxText, ImportedTraceShowsWhatIsUnmatched) {
  TraceBuilder builder;
  builder.kernel(0, 0, "fused_moe_kernel", 0, 3'000'000);
  builder.kernel(0, 0, "nobody\x1bknows", 4'000'000, 5'000'000);
  const ImportedTrace trace = builder.finish();
  const std::string text = imported_text("file", trace, 2);
  EXPECT_TRUE(has_text(text, "2 kernels and 0 copies on 1 device"));
  EXPECT_TRUE(has_text(text, "Unmatched: 1.000 ms, 25.0 % of kernel time"));
  EXPECT_TRUE(has_text(text, "nobody knows"));
  const nlohmann::json document = imported_json("file", trace, 2);
  EXPECT_DOUBLE_EQ(document["devices"][0]["token_ms"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(document["devices"][0]["exposed_ms"]["launch_gaps"].get<double>(), 0.5);
}

}  // namespace
}  // namespace moetune
