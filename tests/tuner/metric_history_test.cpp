// Points of a folder, in the order of their time, with what changed between them.
#include "tuner/metric_history.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_directory.h"
#include "tuner/launch_profile.h"
#include "tuner/nightly_record.h"
#include "tuner/report/history_plot.h"

namespace moetune {
namespace {

HistoryPoint point(const std::string& time, double tpot_ms, double half_width,
                   const std::string& build = "0.1.0 a") {
  HistoryPoint made;
  made.time = time;
  made.source = time + ".json";
  made.model = "tiny-moe";
  made.workload = "chat";
  made.device = "cpu";
  made.build = build;
  made.configuration.values = {{"top_k", "8"}};
  Measurement time_of_token;
  time_of_token.value = tpot_ms;
  time_of_token.low = tpot_ms - half_width;
  time_of_token.high = tpot_ms + half_width;
  made.metrics["tpot_ms"] = time_of_token;
  return made;
}

TEST(MetricHistory, SortsByTimeAndKeepsWhatCannotBeComparedApart) {
  HistoryPoint gpu = point("2026-11-02T00:00:00Z", 0.1, 0.01);
  gpu.device = "NVIDIA H200";
  const auto series =
      history_of({point("2026-11-03T00:00:00Z", 0.3, 0.01), gpu, point("2026-11-01T00:00:00Z", 0.2, 0.01)});
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series[0].device, "NVIDIA H200");
  ASSERT_EQ(series[1].points.size(), 2U);
  EXPECT_EQ(series[1].points[0].time, "2026-11-01T00:00:00Z");
}

TEST(MetricHistory, AChangeIsOneWhereTheIntervalsDoNotMeet) {
  const auto series =
      history_of({point("2026-11-01T00:00:00Z", 1.0, 0.05), point("2026-11-02T00:00:00Z", 1.08, 0.05),
                  point("2026-11-03T00:00:00Z", 1.3, 0.05), point("2026-11-04T00:00:00Z", 1.0, 0.05)});
  const auto changes = changes_of(series.at(0), "tpot_ms");
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_FALSE(changes[0].is_beyond_doubt) << "1.05 meets 1.03";
  EXPECT_TRUE(changes[1].is_beyond_doubt);
  EXPECT_NEAR(changes[1].ratio, 1.3 / 1.08, 1e-12);
  EXPECT_TRUE(changes[2].is_beyond_doubt);
  EXPECT_TRUE(changes_of(series.at(0), "ttft_ms").empty());
}

TEST(MetricHistory, ExactNumbersChangeWhenTheyDiffer) {
  HistoryPoint first = point("2026-11-01T00:00:00Z", 1.0, 0.05);
  HistoryPoint second = point("2026-11-02T00:00:00Z", 1.0, 0.05);
  first.metrics["device_bytes"].value = 100.0;
  second.metrics["device_bytes"].value = 100.0;
  EXPECT_FALSE(changes_of(history_of({first, second}).at(0), "device_bytes").at(0).is_beyond_doubt);
  second.metrics["device_bytes"].value = 101.0;
  EXPECT_TRUE(changes_of(history_of({first, second}).at(0), "device_bytes").at(0).is_beyond_doubt);
}

TEST(MetricHistory, ATimeThatWasTakenOnceProvesNoChange) {
  HistoryPoint first = point("2026-11-01T00:00:00Z", 1.0, 0.05);
  HistoryPoint second = point("2026-11-02T00:00:00Z", 1.0, 0.05);
  for (const char* metric : {"load_seconds", "ttft_ms"}) {
    first.metrics[metric].value = 1.0;
    second.metrics[metric].value = 1.6;
    EXPECT_FALSE(changes_of(history_of({first, second}).at(0), metric).at(0).is_beyond_doubt) << metric;
  }
}

// Two rounds have a range, no interval: neither is a change from them one, nor one to them; the change behind
// them is.
TEST(MetricHistory, TooFewRoundsProveNoChange) {
  History history;
  HistoryPoint first = point("2026-11-01T00:00:00Z", 1.0, 0.05);
  HistoryPoint hasty = point("2026-11-02T00:00:00Z", 1.3, 0.05);
  HistoryPoint last = point("2026-11-03T00:00:00Z", 1.3, 0.05);
  first.metrics["tpot_ms"].processes = last.metrics["tpot_ms"].processes = 9;
  hasty.metrics["tpot_ms"].processes = 2;
  history.series = history_of({first, hasty, last});
  const auto changes = changes_of(history.series.at(0), "tpot_ms");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_FALSE(changes[0].is_beyond_doubt);
  EXPECT_TRUE(changes[1].is_beyond_doubt);
  EXPECT_EQ(changes[1].from, 0U);
  const std::string text = draw_history(history);
  EXPECT_TRUE(has_text(text, "|  (2 rounds)\n")) << text;
  EXPECT_TRUE(has_text(text, "|  <- +30.0 %\n")) << text;
  EXPECT_TRUE(has_text(text, "too few to judge a change by, so none is marked")) << text;
  EXPECT_TRUE(has_text(history_markdown(history), "too few to judge a change by"));
  history.series = history_of({first, last});
  EXPECT_FALSE(has_text(draw_history(history), "too few to judge"));
}

TEST(MetricHistory, IsDrawnToScaleWithItsMarks) {
  History history;
  HistoryPoint night = point("2026-11-03T00:00:00Z", 1.2, 0.05, "0.1.0 b");
  night.verdict = "regression";
  history.series = history_of(
      {point("2026-11-01T00:00:00Z", 1.0, 0.05), point("2026-11-02T00:00:00Z", 1.01, 0.05), night});
  history.left_out = {"x.json: says no time (measured_at)"};
  const std::string text = draw_history(history);
  EXPECT_NE(text.find("tiny-moe, workload chat, cpu: 3 measurements"), std::string::npos) << text;
  EXPECT_NE(text.find("2026-11-01T00:00           1.00 |[----o----]"), std::string::npos) << text;
  EXPECT_NE(text.find("|  <- +18.8 %, build 0.1.0 b  (regression)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("<- +1.0 %"), std::string::npos) << "within the intervals";
  EXPECT_NE(text.find("left out: x.json"), std::string::npos);
  const std::string markdown = history_markdown(history);
  EXPECT_NE(markdown.find("```text\n2026-11-01T00:00"), std::string::npos) << markdown;
}

TEST(MetricHistory, OneMeasurementIsNoPlural) {
  History history;
  history.series = history_of({point("2026-11-01T00:00:00Z", 1.0, 0.05)});
  EXPECT_NE(draw_history(history).find("cpu: 1 measurement\n"), std::string::npos) << draw_history(history);
}

TEST(MetricHistory, ReadsAFolderOfRunsAndProfiles) {
  namespace fs = std::filesystem;
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& name, const nlohmann::json& document) {
    fs::create_directories(fs::path(folder / name).parent_path());
    std::ofstream(folder / name) << document;
  };
  LaunchProfile profile;
  profile.model = "tiny-moe";
  profile.workload.name = "chat";
  profile.hardware.device = "cpu";
  profile.gate = "int8";
  profile.objectives = {"tpot_ms"};
  profile.recommended.evidence = {
      {.metric = "tpot_ms", .value = 1.0, .low = 0.9, .high = 1.1, .p99 = {}, .n = 9, .stopped = ""}};
  write("undated/profile.json", to_json_value(profile));
  profile.measured_at = "2026-11-01T00:00:00Z";
  write("first/profile.json", to_json_value(profile));
  write("night/profile.json", to_json_value(profile));  // what its check concluded: the check says more
  NightlyRecord record;
  record.started = "2026-11-02T00:00:00Z";
  record.model = "tiny-moe";
  record.workload = "chat";
  record.device = "cpu";
  record.input.points.emplace_back();
  record.input.points[0].now = metrics_of(profile.recommended);
  write("night/ci.json", to_json_value(record));
  profile.measured_at = record.started;
  write("refreshed.json", to_json_value(profile));  // by that check
  write("prices.json", {{"usd", 2}});
  std::ofstream(folder / "broken.json") << "{";
  fs::create_directory_symlink(folder / "first", folder / "latest");

  const History history = read_history(folder.path().string());
  ASSERT_EQ(history.series.size(), 1U);
  ASSERT_EQ(history.series[0].points.size(), 2U);
  EXPECT_EQ(history.series[0].points[1].verdict, "indeterminate");
  EXPECT_EQ(history.series[0].points[1].metrics.at("tpot_ms").value, 1.0);
  ASSERT_EQ(history.left_out.size(), 2U);
  EXPECT_NE(history.left_out[0].find("broken.json"), std::string::npos);
  EXPECT_NE(history.left_out[1].find("undated/profile.json: says no time"), std::string::npos);

  fs::remove_all(folder / "first");
  fs::remove_all(folder / "night");
  fs::remove(folder / "refreshed.json");
  EXPECT_NE(message_of<InputError>([&] { read_history(folder.path().string()); }).find("holds no profile"),
            std::string::npos);
  EXPECT_NE(message_of<InputError>([&] { read_history(folder / "nowhere"); }).find("is no folder"),
            std::string::npos);
}

}  // namespace
}  // namespace moetune
