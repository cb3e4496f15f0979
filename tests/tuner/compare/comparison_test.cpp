#include "tuner/compare/comparison.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tuner/compare/comparison_text.h"

namespace moetune {
namespace {

Evidence evidence(const std::string& metric, double value, double spread = 0.0) {
  Evidence made;
  made.metric = metric;
  made.value = value;
  made.n = 40;
  if (spread > 0.0) {
    made.low = value - spread;
    made.high = value + spread;
  }
  return made;
}

LaunchProfile profile(const std::string& device, double tokens_per_s) {
  LaunchProfile made;
  made.model = "tiny-moe";
  made.model_hash = "0123";
  made.gate = "int8";
  made.workload.slo = {"tpot_p99", 50.0};
  made.hardware.device = device;
  made.hardware.gpu_count = 1;
  made.recommended = {
      1,
      {{"top_k", "7"}},
      {evidence("tokens_per_s", tokens_per_s, 10.0), evidence("tpot_ms", 2.5),
       evidence("joules_per_token", 0.5), evidence("kl_mean", 0.008), evidence("top1_agreement", 0.97)}};
  made.recommended.evidence[1].p99 = 3.0;
  made.front = {made.recommended};
  return made;
}

TEST(Comparison, ALimitOfMemoryIsPartOfTheName) {
  LaunchProfile made = profile("NVIDIA H200", 100.0);
  const auto name = [&](std::int64_t usable, std::int64_t comes_with) {
    made.hardware.device_bytes = usable;
    return compared(made, "a.json", {}, comes_with).box;
  };
  constexpr std::int64_t h200 = 141'000'000'000;
  EXPECT_EQ(name(std::int64_t{24} << 30, h200), "NVIDIA H200 x1, limited to 24.0 GiB");
  EXPECT_EQ(name(std::int64_t{139} << 30, h200), "NVIDIA H200 x1");
  EXPECT_EQ(name(137'000'000'000, h200), "NVIDIA H200 x1") << "a driver and error correction take some";
  EXPECT_EQ(name(std::int64_t{24} << 30, 0), "NVIDIA H200 x1") << "who does not know the GPU cannot tell";
  EXPECT_EQ(name(0, h200), "NVIDIA H200 x1");
}

TEST(Comparison, WhatHoldsForSeveralBoxesIsSaidOnce) {
  Comparison comparison;
  for (const char* const name : {"A", "B", "C"}) {
    ComparedBox& made = comparison.boxes.emplace_back();
    made.box = name;
    made.model = "m";
    if (name != std::string("A")) made.remark = "predicted from A";
  }
  comparison.boxes[0].price.usd_per_hour = 2.0;
  const std::vector<std::string> remarks = comparison_remarks(comparison);
  ASSERT_EQ(remarks.size(), 3U);  // the last says what the figures are
  EXPECT_EQ(remarks[0], "B, m; C, m: predicted from A.");
  EXPECT_EQ(remarks[1], "The rent of B; C is not known: --prices FILE or --usd-per-hour brings it.");
}

TEST(Comparison, WhatComesToNoNumberIsRefused) {
  const auto settled = [](double tokens_per_s) {
    Comparison comparison;
    BoxPrice price;
    price.usd_per_hour = 2.0;
    comparison.boxes.push_back(compared(profile("A", tokens_per_s), "a.json", price));
    comparison.boxes.front().recommended.metrics.at("tokens_per_s").low.reset();
    comparison.boxes.front().recommended.metrics.at("tokens_per_s").high.reset();
    settle(comparison);
    return comparison;
  };
  EXPECT_TRUE(settled(100.0).boxes.front().recommended.usd_per_mtok);
  const std::string message = message_of<InputError>([&] { settled(5e-324); });
  EXPECT_TRUE(has_text(message, "a.json: usd_per_mtok of A x1 comes to no number")) << message;
}

TEST(Comparison, ColumnsAreToldApart) {
  Comparison comparison;
  const auto add = [&](const char* box, const char* model, const char* from, bool is_predicted) {
    ComparedBox& made = comparison.boxes.emplace_back();
    made.box = box;
    made.model = model;
    made.from = from;
    made.is_predicted = is_predicted;
  };
  add("H200 x1", "m", "a", false);
  add("H200 x1", "m", "b", true);
  EXPECT_EQ(comparison_headings(comparison), (std::vector<std::string>{"H200 x1", "H200 x1 (predicted)"}));
  add("H200 x1", "other", "c", false);
  EXPECT_EQ(comparison_headings(comparison),
            (std::vector<std::string>{"H200 x1, m", "H200 x1 (predicted)", "H200 x1, other"}));
  add("H200 x1", "m", "d", false);
  EXPECT_EQ(comparison_headings(comparison), (std::vector<std::string>{"H200 x1, m, a", "H200 x1 (predicted)",
                                                                       "H200 x1, other", "H200 x1, m, d"}));
}

TEST(Comparison, NamesEveryFieldThatDiffers) {
  std::vector<LaunchProfile> profiles = {profile("A", 100.0), profile("B", 200.0)};
  const std::vector<std::string> names = {"a.json", "b.json"};
  EXPECT_TRUE(differences(profiles, names).empty());
  profiles[1].workload.seed = 9;
  EXPECT_TRUE(differences(profiles, names).empty()) << "which texts were sent is no difference in the work";
  profiles[1].gate = "lossless";
  profiles[1].workload.prompt_tokens = 64;
  profiles[1].workload.slo.limit_ms = 20.0;
  const std::vector<std::string> found = differences(profiles, names);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], "gate: int8 (a.json), lossless (b.json)");
  EXPECT_TRUE(has_text(found[1], "workload.prompt_tokens: 512 (a.json), 64 (b.json)"));
  EXPECT_TRUE(has_text(found[2], "slo.limit_ms: 50 (a.json), 20 (b.json)"));
}

Comparison two_boxes() {
  Comparison comparison;
  comparison.gate = "int8";
  comparison.workload.slo = {"tpot_p99", 50.0};
  comparison.money = {.usd_per_kwh = 0.25, .years = 1.0};
  BoxPrice cheap;
  cheap.usd_per_hour = 0.9;
  BoxPrice dear;
  dear.usd_per_hour = 3.6;
  dear.buy_usd = 8760.0;
  dear.watts = 2000.0;
  dear.source = "a quote";
  comparison.boxes = {compared(profile("A", 100.0), "a.json", cheap),
                      compared(profile("B", 1000.0), "b.json", dear)};
  settle(comparison);
  return comparison;
}

TEST(Comparison, MoneyIsSettledFromPricesAndRates) {
  const Comparison comparison = two_boxes();
  const ComparedBox& cheap = comparison.boxes[0];
  const ComparedBox& dear = comparison.boxes[1];
  EXPECT_DOUBLE_EQ(cheap.recommended.usd_per_mtok->value, 2.5);
  EXPECT_DOUBLE_EQ(dear.recommended.usd_per_mtok->value, 1.0);
  EXPECT_DOUBLE_EQ(*cheap.recommended.usd_per_mtok->low, 0.9 / 3600.0 / 110.0 * 1e6)
      << "the most tokens are the cheapest";
  EXPECT_EQ(cheap.price.watts, 50.0) << "measured: joules per token times tokens per second";
  EXPECT_EQ(*dear.joules_per_mtok, 5e5);
  EXPECT_DOUBLE_EQ(*dear.own_usd_per_hour, 1.5);
  EXPECT_DOUBLE_EQ(*dear.own_usd_per_mtok, 1.5 / 3.6);
  EXPECT_NEAR(*dear.break_even_busy_share, 1.0 / 3.1, 1e-12);
  EXPECT_TRUE(cheap.is_cheapest_by_the_hour);
  EXPECT_EQ(dear.break_even_tokens_per_s, 400.0);
  EXPECT_TRUE(*dear.recommended.keeps_slo);
}

TEST(Comparison, RowsMarkdownPageAndJsonSayTheSame) {
  const Comparison comparison = two_boxes();
  std::string all;
  for (const ComparisonRow& row : comparison_rows(comparison)) {
    EXPECT_EQ(row.cells.size(), 2U);
    for (const std::string& cell : row.cells) all += row.name + "=" + cell + "\n";
  }
  EXPECT_TRUE(has_text(all, "rented (USD/Mtok)=1.00 (0.990-1.010)"));
  EXPECT_TRUE(has_text(all, "service level=kept"));
  EXPECT_TRUE(has_text(all, "owning pays if busy=32 % of all hours"));
  EXPECT_TRUE(has_text(all, "beats the cheapest=above 400 tokens/s"));
  EXPECT_TRUE(has_text(comparison_markdown(comparison), "| above 400 tokens/s |"));
  EXPECT_TRUE(has_text(comparison_html(comparison), "above 400 tokens/s"));
  const nlohmann::json document = to_json_value(comparison);
  EXPECT_EQ(document.at("boxes")[1].at("break_even_tokens_per_s"), 400.0);
  EXPECT_EQ(document.at("boxes")[0].at("own_usd_per_hour"), nullptr) << "what is not known is null";
}

std::map<std::string, std::string> cells_of(const Comparison& comparison, std::size_t box) {
  std::map<std::string, std::string> cells;
  for (const ComparisonRow& row : comparison_rows(comparison)) cells[row.name] = row.cells[box];
  return cells;
}

// What rests on a speed that nobody measured says so; prices by the hour are what they are.
TEST(Comparison, MoneyOfAPredictedSpeedIsMarked) {
  Comparison comparison = two_boxes();
  ComparedBox predicted = comparison.boxes[1];
  predicted.box = "C x1";
  predicted.is_predicted = true;
  for (auto& [name, measurement] : predicted.recommended.metrics) measurement.origin = Origin::predicted;
  comparison.boxes.push_back(predicted);
  settle(comparison);
  auto cells = cells_of(comparison, 2);
  EXPECT_TRUE(has_text(cells["rented (USD/Mtok)"], " predicted")) << cells["rented (USD/Mtok)"];
  EXPECT_EQ(cells["owned (USD/Mtok)"], "0.417 predicted");
  EXPECT_EQ(cells["beats the cheapest"], "above 400 tokens/s predicted");
  EXPECT_EQ(cells["rent (USD/h)"], "3.60");
  EXPECT_EQ(cells_of(comparison, 1)["owned (USD/Mtok)"], "0.417");
  EXPECT_TRUE(has_text(comparison_remarks(comparison).back(), "rests on a predicted speed"));

  comparison.boxes[2].is_fastest_possible = true;
  cells = cells_of(comparison, 2);
  EXPECT_EQ(cells["owned (USD/Mtok)"], "at least 0.417 predicted");
  EXPECT_TRUE(cells["rented (USD/Mtok)"].starts_with("at least ")) << cells["rented (USD/Mtok)"];
}

TEST(Comparison, LoadsOfMeasuredBoxesAreNeverHeldAgainstAPredictedOne) {
  Comparison comparison = two_boxes();
  ComparedBox predicted = comparison.boxes[0];
  predicted.is_predicted = true;
  predicted.price.usd_per_hour = 0.1;
  comparison.boxes.insert(comparison.boxes.begin(), predicted);
  settle(comparison);
  EXPECT_TRUE(comparison.boxes[1].is_cheapest_by_the_hour);
  EXPECT_EQ(comparison.boxes[2].break_even_tokens_per_s, 400.0);
  EXPECT_EQ(cells_of(comparison, 0)["beats the cheapest"], "costs less by the hour");
}

TEST(Comparison, FootnotesOfTwoColumnsOfOneBoxAreSaidOnce) {
  Comparison comparison = two_boxes();
  comparison.boxes[0] = comparison.boxes[1];
  comparison.money.usd_per_kwh.reset();
  comparison.boxes[0].remark = comparison.boxes[1].remark = "synthetic weights";
  const std::vector<std::string> remarks = comparison_remarks(comparison);
  ASSERT_EQ(remarks.size(), 4U);
  EXPECT_EQ(remarks[0], "B x1, tiny-moe: synthetic weights.");
  EXPECT_EQ(remarks[1], "Prices of B x1: a quote.");
  EXPECT_TRUE(remarks[2].starts_with("What owning B x1 costs is not known"));
}

TEST(Comparison, NoMoneyIsMadeOfAPredictionBesideItsMeasurement) {
  Comparison comparison = two_boxes();
  ComparedBox predicted = comparison.boxes[1];
  predicted.is_predicted = predicted.is_measured_beside = true;
  predicted.recommended.usd_per_mtok.reset();
  predicted.own_usd_per_mtok.reset();
  predicted.break_even_tokens_per_s.reset();
  comparison.boxes.push_back(predicted);
  settle(comparison);
  const auto cells = cells_of(comparison, 2);
  for (const char* row : {"rented (USD/Mtok)", "owned (USD/Mtok)", "beats the cheapest"})
    EXPECT_EQ(cells.at(row), "-") << row;
  EXPECT_EQ(cells.at("rent (USD/h)"), "3.60");
  EXPECT_EQ(to_json_value(comparison)["boxes"][2]["measured_beside"], true);
  EXPECT_FALSE(to_json_value(comparison)["boxes"][1].contains("measured_beside"));
  EXPECT_EQ(comparison_remarks(comparison).front(),
            "B x1, tiny-moe was measured as well: what tokens cost stands in its measured column alone.");
}

TEST(Comparison, APredictionOfWhatWasMeasuredNamesItsProfile) {
  Comparison comparison = two_boxes();
  comparison.boxes[1].measured_as = "b-x1/tiny-moe/chat";
  EXPECT_EQ(comparison_remarks(comparison).front(),
            "B x1, tiny-moe was measured as well: name 'b-x1/tiny-moe/chat' as PROFILE, in place of the "
            "prediction.");
}

TEST(Comparison, DoesNotFitIsAnAnswer) {
  Comparison comparison = two_boxes();
  ComparedBox small;
  small.box = "small";
  small.model = "tiny-moe";
  small.is_predicted = true;
  small.missing_bytes = 3 << 20;
  comparison.boxes.push_back(small);
  settle(comparison);
  std::string all;
  for (const ComparisonRow& row : comparison_rows(comparison)) all += row.name + "=" + row.cells[2] + "\n";
  EXPECT_TRUE(has_text(all, "configuration=does not fit: 3.00 MiB missing"));
  EXPECT_EQ(to_json_value(comparison).at("boxes")[2].at("missing_bytes"), 3 << 20);
}

TEST(Comparison, HostileNamesAreInert) {
  Comparison comparison = two_boxes();
  comparison.boxes[0].box = comparison.boxes[0].model = comparison.boxes[0].remark =
      "</script><img src=x onerror=hit()>| `x`";
  const std::string page = comparison_html(comparison);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("</script><img"), std::string::npos);
  EXPECT_TRUE(has_text(comparison_markdown(comparison), "\\</script\\>\\<img src=x"));
}

}  // namespace
}  // namespace moetune
