#include "tuner/sample_series.h"

#include <gtest/gtest.h>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"

namespace moetune {
namespace {

const std::string head = header_line({{"model", "tiny-moe"}});

TEST(SampleSeries, IsReadAsItWasWritten) {
  const SampleRun first{.at_s = 0.0, .ttft_ms = 3.5, .tpot_ms = 0.24567, .token_ms = {0.25, 0.24134}, .is_warm_up = true};
  const SampleRun second{.at_s = 0.125, .ttft_ms = 3.25, .tpot_ms = 0.25, .token_ms = {}, .is_throttled = true};
  const std::string text = head + process_line({.pid = 7, .started = "2026-11-30T01:02:03Z", .runs = {}}) + run_line(first) +
                           run_line(second) + process_line({.pid = 8, .started = "", .runs = {}});
  const SampleSeries series = parse_sample_series(text, "samples.jsonl");
  EXPECT_EQ(series.header.at("model"), "tiny-moe");
  ASSERT_EQ(series.processes.size(), 2U);
  EXPECT_EQ(series.processes[0].pid, 7);
  EXPECT_EQ(series.processes[0].started, "2026-11-30T01:02:03Z");
  ASSERT_EQ(series.processes[0].runs.size(), 2U);
  const SampleRun& run = series.processes[0].runs[0];
  EXPECT_DOUBLE_EQ(run.tpot_ms, 0.2457) << "to a tenth of a microsecond";
  EXPECT_EQ(run.token_ms, (std::vector<double>{0.25, 0.2413}));
  EXPECT_TRUE(run.is_warm_up);
  EXPECT_FALSE(run.is_throttled);
  EXPECT_TRUE(series.processes[0].runs[1].is_throttled);
  EXPECT_DOUBLE_EQ(series.processes[0].runs[1].at_s, 0.125);
  EXPECT_TRUE(series.processes[1].runs.empty());
}

std::string refusal(const std::string& lines) {
  return message_of<InputError>([&] { parse_sample_series(lines, "samples.jsonl"); });
}

TEST(SampleSeries, NamesTheLineThatIsWrong) {
  EXPECT_TRUE(has_text(refusal(""), "samples.jsonl: empty"));
  EXPECT_TRUE(has_text(refusal("{\"samples\":2}\n"), "samples.jsonl:1"));
  EXPECT_TRUE(has_text(refusal(head + "{\"at_s\":0,\"ttft_ms\":0,\"tpot_ms\":0}\n"), "samples.jsonl:2"));
  const std::string process = process_line({.pid = 7, .started = "", .runs = {}});
  EXPECT_TRUE(has_text(refusal(head + process + "{\"at_s\":0,\"ttft_ms\":-1,\"tpot_ms\":0}\n"), "samples.jsonl:3"));
  EXPECT_TRUE(has_text(refusal(head + process + "{\"at_s\":0,\"ttft_ms\":1,\"tpot_ms\":0,\"token_ms\":[\"x\"]}\n"), "token_ms"));
  EXPECT_TRUE(has_text(refusal(head + process + "{\"at_s\":0,\"ttf"), "samples.jsonl:3")) << "cut short";
  EXPECT_TRUE(has_text(message_of<InputError>([] { read_sample_series("no/such/file"); }), "no/such/file"));
}

}  // namespace
}  // namespace moetune
