#include "tuner/report/html.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/message_of.h"
#include "tests/tuner/support/report_example.h"
#include "tuner/report/markdown.h"
#include "tuner/report/page_data.h"

namespace moetune {
namespace {

constexpr auto hostile =
    "</script><script>window.hit=1</script>\"'><img src=x onerror=window.hit=1> $(id) `x`";

// What stands in the page outside of its own scripts and style.
std::string without_assets(const std::string& page) {
  std::string text = page;
  for (const auto& [begin, end] :
       {std::pair{"<style>", "</style>"}, std::pair{"<script>\n", "</script>\n</body>"}}) {
    const std::size_t from = text.find(begin);
    const std::size_t to = text.find(end, from);
    if (from == std::string::npos || to == std::string::npos) return "";
    text.erase(from, to - from);
  }
  return text;
}

// The embedded document, read back.
nlohmann::json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(Html, SaysFirstWhatToLaunchAndWhy) {
  const std::string page = without_assets(to_html(example_report()));
  EXPECT_LT(page.find("What to launch: trial 1<"), page.find("The front<"));
  EXPECT_TRUE(has_text(page, "<p class=\"verdict\">Fastest that meets the int8 gate.</p>"));
  EXPECT_TRUE(has_text(page, "<th scope=\"row\"><code>top_k</code></th><td><code>7</code></td>"));
  EXPECT_TRUE(has_text(page, "Why not: It is slower."));
}

TEST(Html, TheFrontInNumbersNamesWhatDiffersFromTheDefault) {
  RunReport report = example_report();
  report.trials[0].configuration.values = {{"top_k", "8"}, {"router", "cpu"}};
  report.trials[1].configuration.values = {{"top_k", "7"}, {"router", "cpu"}};
  report.front = {0, 1};
  const std::string page = without_assets(to_html(report));
  const std::string numbers = page.substr(page.find("The front in numbers"));
  EXPECT_TRUE(has_text(numbers, "The default: <code>router=cpu top_k=8</code>"));
  EXPECT_TRUE(has_text(numbers, ">nothing</td>"));
  EXPECT_TRUE(has_text(numbers, "<code>top_k=7</code></td>"));
}

TEST(Html, SaysWhyTheTimeOfATrialWasNotRecorded) {
  RunReport report = example_report();
  Trial recording;
  recording.number = 1;
  recording.is_recording = true;
  recording.reason = "recording made steps 1.21 times as long";
  report.recordings = {recording};
  const nlohmann::json data = data_of(to_html(report));
  const nlohmann::json& trial = data.at("trials").at(1);
  EXPECT_EQ(data.at("reasons").at(trial.at("not_recorded").get<std::size_t>()), recording.reason);
  EXPECT_FALSE(data.at("trials").at(0).contains("not_recorded"));
  recording.outcome = Outcome::timed_out;
  report.recordings = {recording};
  EXPECT_TRUE(has_text(without_assets(to_html(report)), "1, recorded</th><td>timed_out"));
}

TEST(Html, ARefutationStandsOnTheFirstScreen) {
  RunReport report = example_report();
  report.confirmations.resize(1);
  report.confirmations[0].verdict = "refuted";
  report.confirmations[0].reason = "tpot_ms <b>";
  const std::string page = without_assets(to_html(report));
  const auto at = page.find("<p class=\"caution\">REFUTED by ");
  EXPECT_LT(at, page.find("<code>top_k</code>"));
  EXPECT_TRUE(has_text(page, "tpot_ms &lt;b&gt;"));
  EXPECT_TRUE(has_text(to_markdown(report), "**REFUTED by "));
}

TEST(Html, ListsEveryFailureWithItsReasonAndTheMachine) {
  const std::string page = without_assets(to_html(example_report()));
  EXPECT_TRUE(has_text(page, "Failures: 1"));
  EXPECT_TRUE(has_text(page, "last words: &lt;b&gt;bad&lt;/b&gt; | pipe"));
  EXPECT_TRUE(has_text(page, "Example | 9000"));
}

TEST(Html, NothingRecommendedAndNothingMeasuredArePagesToo) {
  RunReport report = example_report();
  report.verdict = {
      .recommended = {}, .reason = "Nothing meets the gate.", .runner_up = {}, .why_not_runner_up = ""};
  EXPECT_TRUE(
      has_text(to_html(report), "<strong>Nothing can be recommended.</strong> Nothing meets the gate."));
  report.trials.clear();
  report.front.clear();
  const std::string page = to_html(report);
  EXPECT_TRUE(has_text(page, "The front is empty"));
  EXPECT_TRUE(data_of(page).at("trials").empty());
}

TEST(Html, HostileTextsAreInert) {
  RunReport report = example_report();
  report.run_path = hostile;
  report.request.model = hostile;
  report.request.workload = hostile;
  report.request.command = {"moetune", hostile};
  report.request.conditions = {{hostile, hostile}, {"model_note", hostile}};
  report.hardware = {{hostile, hostile}};
  report.verdict.reason = report.verdict.caution = report.verdict.why_not_runner_up = hostile;
  report.torn = hostile;
  for (Trial& trial : report.trials) {
    trial.configuration.values[hostile] = hostile;
    trial.reason = trial.started = hostile;
    if (trial.outcome == Outcome::ok)
      trial.metrics[hostile] = {.value = 1.0, .low = {}, .high = {}, .p99 = {}, .stopped = hostile};
  }
  const std::string page = to_html(report);
  const std::string text = without_assets(page);
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.find("<img"), std::string::npos);
  EXPECT_EQ(text.find("<script>window"), std::string::npos);
  EXPECT_EQ(text.find("onerror=window.hit=1>"), std::string::npos);
  EXPECT_EQ(data_of(page).at("model"), hostile) << "the data says what was said";
}

TEST(Html, AsksForNothingFromAnywhere) {
  const std::string page = to_html(example_report());
  EXPECT_TRUE(has_text(page, "default-src 'none'"));
  for (const char* request : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_EQ(page.find(request), std::string::npos) << request;
  // Namespaces are names, not addresses that anybody opens.
  std::size_t addresses = 0;
  for (std::size_t at = page.find("http"); at != std::string::npos; at = page.find("http", at + 1))
    addresses +=
        page.compare(at, 26, "http://www.w3.org/2000/svg") == 0 || page.compare(at, 10, "http-equiv") == 0
            ? 0
            : 1;
  EXPECT_EQ(addresses, 0U);
}

TEST(Html, TwoThousandTrialsOfEveryKnobAndMetricStayBelowThreeMegabytes) {
  RunReport report = example_report();
  report.trials.resize(1);
  for (std::int64_t number = 1; number < 2000; ++number) {
    Trial trial = measured_trial(number, std::to_string(1 + number % 8),
                                 1.0 + static_cast<double>(number) / 7001.0, 0.01);
    for (int i = 0; i < 18; ++i)
      trial.configuration.values["knob_" + std::to_string(i)] = std::to_string((number >> (i % 5)) % 6);
    for (int i = 0; i < 16; ++i)
      trial.metrics["metric_" + std::to_string(i)] = {.value = 0.123456789 * static_cast<double>(number + i),
                                                      .low = 0.1212121212 * static_cast<double>(number),
                                                      .high = 0.1313131313 * static_cast<double>(number),
                                                      .p99 = 0.9876543 * static_cast<double>(number),
                                                      .n = 1000 + number,
                                                      .stopped = "interval narrow"};
    if (number % 4 == 0) {
      trial.metrics.clear();
      trial.outcome = Outcome::crashed;
      trial.reason = "the worker was killed by SIGSEGV in trial " + std::to_string(number);
    }
    report.trials.push_back(trial);
  }
  EXPECT_LT(to_html(report).size(), 3'000'000U);
}

TEST(PageData, NumbersKeepSixDigitsAndTheirOrigin) {
  RunReport report = example_report();
  report.trials[1].metrics["tpot_ms"].value = 2.123456789;
  const nlohmann::json data = page_data(report);
  EXPECT_EQ(data.at("metrics")[0].at("name"), "tpot_ms");
  EXPECT_EQ(data.at("metrics")[0].at("better"), "smaller");
  EXPECT_EQ(data.at("trials")[1].at("metrics")[0][0], 2.12346);
  const nlohmann::json& metrics = data.at("metrics");
  std::size_t memory = 0;
  while (metrics[memory].at("name") != "device_bytes") ++memory;
  EXPECT_EQ(data.at("trials")[1].at("metrics")[memory][5], "predicted");
  EXPECT_EQ(data.at("trials")[3].at("outcome"), "crashed");
  EXPECT_EQ(data.at("trials")[2].at("gate"), "missed");
  EXPECT_EQ(data.at("measure"), (nlohmann::json{"moetune", "measure", "--model", "my models/tiny"}));
  // Values stand in the order of their size: 4, 5, 7, 8.
  EXPECT_EQ(data.at("knobs")[1].at("values"), (nlohmann::json{"4", "5", "7", "8"}));
  EXPECT_EQ(data.at("hypervolume").size(), 4U);
}

}  // namespace
}  // namespace moetune
