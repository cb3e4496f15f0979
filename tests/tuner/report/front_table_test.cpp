#include "tuner/report/front_table.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/tuner/support/report_example.h"

namespace moetune {
namespace {

// Fields of one line of CSV (RFC 4180).
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && is_quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[i++];
    } else if (line[i] == '"') {
      is_quoted = !is_quoted;
    } else if (line[i] == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  EXPECT_FALSE(is_quoted) << line;
  return fields;
}

std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t start = 0; start < csv.size();) {
    const std::size_t end = csv.find("\r\n", start);
    EXPECT_NE(end, std::string::npos) << "every line ends";
    rows.push_back(fields_of(csv.substr(start, end - start)));
    start = end + 2;
  }
  return rows;
}

std::string field(const std::vector<std::vector<std::string>>& rows, std::size_t row,
                  const std::string& heading) {
  for (std::size_t i = 0; i < rows[0].size(); ++i)
    if (rows[0][i] == heading) return rows[row][i];
  ADD_FAILURE() << "no column " << heading;
  return "";
}

TEST(FrontCsv, HasARowPerTrialOfTheFrontWithUnitsAndIntervals) {
  const auto rows = rows_of(to_csv(example_report()));
  ASSERT_EQ(rows.size(), 4U);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(field(rows, 2, "trial"), "1");
  EXPECT_EQ(field(rows, 2, "role"), "recommended, front");
  EXPECT_EQ(field(rows, 2, "top_k"), "7");
  EXPECT_EQ(field(rows, 2, "tpot_ms (ms per token)"), "2.5");
  EXPECT_EQ(field(rows, 2, "tpot_ms low"), "2.45");
  EXPECT_EQ(field(rows, 2, "tpot_ms n"), "40");
  EXPECT_EQ(field(rows, 2, "tpot_ms p99"), "");
  EXPECT_EQ(field(rows, 2, "device_bytes (bytes)"), "13893632");
  EXPECT_EQ(field(rows, 2, "device_bytes origin"), "predicted");
}

TEST(FrontCsv, TheDefaultIsThereEvenWhenItFailed) {
  RunReport report = example_report();
  report.front = {1};
  report.trials[0].metrics.clear();
  report.trials[0].outcome = Outcome::timed_out;
  const auto rows = rows_of(to_csv(report));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(field(rows, 2, "trial"), "0");
  EXPECT_EQ(field(rows, 2, "outcome"), "timed_out");
  EXPECT_EQ(field(rows, 2, "tpot_ms (ms per token)"), "");
  EXPECT_EQ(rows[2].size(), rows[0].size());
}

TEST(FrontCsv, HostileValuesStayOneField) {
  RunReport report = example_report();
  for (Trial& trial : report.trials)
    trial.configuration.values["=cmd|' /C calc'!A0,\"x\"\r\n"] = "+1,\"2\"\n3";
  const auto rows = rows_of(to_csv(report));
  ASSERT_EQ(rows.size(), 4U);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[0][3], "'=cmd|' /C calc'!A0,\"x\"  ");
  EXPECT_EQ(rows[1][3], "'+1,\"2\" 3");
}

TEST(FrontJson, SaysWhatWasChosenAndWhatFrom) {
  const nlohmann::json front = to_front_json(example_report());
  EXPECT_EQ(front["recommended"], 1);
  EXPECT_EQ(front["default"], 0);
  EXPECT_EQ(front["reason"], "Fastest that meets the int8 gate.");
  EXPECT_EQ(front["objectives"][0],
            (nlohmann::json{{"metric", "tpot_ms"}, {"unit", "ms per token"}, {"direction", "minimize"}}));
  ASSERT_EQ(front["points"].size(), 3U);
  EXPECT_EQ(front["points"][1]["configuration"]["top_k"], 7);
  EXPECT_EQ(front["points"][1]["metrics"]["tpot_ms"]["low"], 2.5 * 0.98);
  EXPECT_EQ(front["points"][1]["metrics"]["device_bytes"]["origin"], "predicted");

  RunReport empty = example_report();
  empty.verdict = {};
  EXPECT_TRUE(to_front_json(empty)["recommended"].is_null());
}

}  // namespace
}  // namespace moetune
