#include "tuner/report/markdown.h"

#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/tuner/support/report_example.h"
#include "tuner/report/against_default.h"
#include "tuner/report/final_section.h"

namespace moetune {
namespace {

TEST(Markdown, SaysFirstWhatToLaunchAndWhy) {
  const std::string text = to_markdown(example_report());
  EXPECT_TRUE(
      text.starts_with("# tiny-moe, chat\n\n## What to launch\n\n**Trial "
                       "1:**\n\n```text\nrouter=cpu\ntop_k=7\n```\n\nFastest that meets the int8 gate."));
  EXPECT_TRUE(has_text(text, "Runner-up: trial 0 (`router=cpu top_k=8`). Why not: It is slower."));
}

TEST(Markdown, HoldsFrontDefaultFailuresMachineAndCommands) {
  const std::string text = to_markdown(example_report());
  EXPECT_TRUE(has_text(text,
                       "| trial | configuration | tpot_ms (ms per token) | kl_mean (nats) | top1_agreement "
                       "(%) | device_bytes (MiB) | role |"));
  EXPECT_TRUE(has_text(text,
                       "| 1 | `top_k=7` | 2.50 (2.45 to 2.55) | 0.00800 (0.00720 to 0.00880) | 97.0 | 13.25 "
                       "predicted | recommended, front |"));
  EXPECT_TRUE(has_text(text, "The same in every trial: `router=cpu`."));
  EXPECT_TRUE(has_text(text, "## The default configuration\n\nTrial 0: `router=cpu top_k=8`"));
  EXPECT_TRUE(has_text(text,
                       "| 3 | crashed | `top_k=5` | the worker was killed by SIGSEGV; last words: "
                       "\\<b\\>bad\\</b\\> \\| pipe |"));
  EXPECT_TRUE(has_text(text,
                       "| tpot_ms | time per output token while decoding | ms per token | measured | 40 | 95 "
                       "% | interval narrow |"));
  EXPECT_TRUE(has_text(text, "| device_bytes | peak memory of the device | bytes | predicted | 1 | none |"));
  EXPECT_TRUE(has_text(text, "| cpu_name | Example \\| 9000 |"));
  EXPECT_TRUE(has_text(text,
                       "moetune tune --model 'my models/tiny'\nmoetune tune --model 'my models/tiny' --run "
                       "runs/example --resume\n"));
}

TEST(Markdown, SaysWhatElseRanBesideIt) {
  RunReport report = example_report();
  EXPECT_FALSE(has_text(to_markdown(report), "other work"));
  report.other_work = {"make (process 7, 1.00 cores)"};
  EXPECT_TRUE(has_text(to_markdown(report),
                       "| other work | make (process 7, 1.00 cores): times are not this machine's alone"));
}

TEST(Markdown, SaysThatTheClockJumped) {
  RunReport report = example_report();
  EXPECT_FALSE(has_text(to_markdown(report), "system clock"));
  report.trials[2].clock_jump_seconds = 3600.0;
  report.measured_again = {report.trials[0]};
  report.measured_again[0].turn = FinalTurn{.after = 4, .finalists = {0}, .pass = 0};
  report.measured_again[0].clock_jump_seconds = -59.0;
  EXPECT_TRUE(has_text(
      to_markdown(report),
      "| system clock | jumped by +3600 s during trial 2, jumped by -59 s during trial 0 of the final "
      "round; times are taken with another clock |"));
}

TEST(Markdown, EveryTableRowHasAsManyCellsAsItsHeading) {
  std::istringstream lines(to_markdown(example_report()));
  std::size_t cells = 0;
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < line.size(); ++i)
      count += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
    if (!line.starts_with("|")) {
      cells = 0;
      continue;
    }
    if (cells == 0) cells = count;
    EXPECT_EQ(count, cells) << line;
    ++rows;
  }
  EXPECT_GT(rows, 20);
}

TEST(Markdown, SaysInWordsWhetherTheDefaultIsBeaten) {
  RunReport report = example_report();
  EXPECT_EQ(against_default_words(report),
            "1 of 1 configurations that meet the int8 gate is better than the default in tpot_ms; the best "
            "is trial 1 with 2.50 (2.45 to 2.55) "
            "instead of 3.00 (2.94 to 3.06) ms per token.");
  EXPECT_TRUE(has_text(to_markdown(report), "1 of 1 configurations that meet the int8 gate is better"));

  report.trials[1].metrics["tpot_ms"].high = 2.96;
  EXPECT_TRUE(has_text(against_default_words(report),
                       "; their intervals overlap, so the difference is not certain."));

  report.trials[1].metrics["tpot_ms"].value = 3.0;  // as fast as the default does not beat it
  report.verdict = {.recommended = 0, .reason = "The default.", .runner_up = {}, .why_not_runner_up = ""};
  EXPECT_EQ(against_default_words(report),
            "No configuration that meets the int8 gate beats the default in tpot_ms (1 tried).");
  EXPECT_TRUE(has_text(to_markdown(report), "**Trial 0, the default configuration:**"));
  EXPECT_TRUE(has_text(to_markdown(report),
                       "No configuration that meets the int8 gate beats the default in tpot_ms"));

  report.request.gate = "none";  // then trial 2 counts as well
  EXPECT_TRUE(has_text(
      against_default_words(report),
      "1 of 2 configurations is better than the default in tpot_ms; the best is trial 2 with 1.500"));

  report.trials[0].outcome = Outcome::infeasible;
  report.trials[0].reason = "needs 3 bytes";
  EXPECT_TRUE(has_text(against_default_words(report), "could not be measured (infeasible: needs 3 bytes)"));
}

// Trials 0 and 1 of the example, measured again: the default was slow in the search.
RunReport example_with_final_round() {
  RunReport report = example_report();
  FinalRound round;
  round.passes = 9;
  round.finalists.resize(2);
  round.finalists[1].trial = 1;
  round.finalists[0].metrics["tpot_ms"] = report.trials[0].metrics.at("tpot_ms");
  round.finalists[0].metrics["tpot_ms"].value = 2.6;
  round.finalists[1].metrics["tpot_ms"] = report.trials[1].metrics.at("tpot_ms");
  Measurement& ratio = round.finalists[1].ratio.emplace();
  ratio.value = 0.96;
  ratio.low = 0.95;
  ratio.high = 0.97;
  ratio.processes = 9;
  report.verdict.final_round = round;
  return report;
}

TEST(Markdown, TheFinalRoundIsWhatCounts) {
  const std::string text = to_markdown(example_with_final_round());
  EXPECT_TRUE(has_text(
      text,
      "In the search 1 of 1 configurations that meet the int8 gate looked better than the default in tpot"));
  EXPECT_TRUE(has_text(text, "9 times in fresh processes, the finalist is better than it in tpot"));
  EXPECT_TRUE(has_text(text, "trial 1 4.0 % under (95 % interval 3.0 % to 5.0 %)."));
  EXPECT_TRUE(has_text(text, "| 2.50 (2.45 to 2.55) | 2.60 (2.94 to 3.06) |"))
      << "default of the final round";
  EXPECT_TRUE(has_text(text, "## The final round\n\n"));
  EXPECT_TRUE(
      has_text(text, "| 0 | 2.60 (2.94 to 3.06) | - | 3.00 (2.94 to 3.06) | runner-up, default, front |"));
  EXPECT_TRUE(has_text(text, "Times are the search's"));

  RunReport none = example_with_final_round();
  none.verdict.final_round->finalists[1].ratio->high = 1.01;
  EXPECT_TRUE(has_text(to_markdown(none), "the finalist is not better than it"));
  none.verdict.final_round->finalists[1].ratio.reset();
  none.verdict.final_round->finalists[1].failure = "crashed: <b>";
  EXPECT_TRUE(has_text(to_markdown(none), "| 1 | failed: crashed: \\<b\\> | - |"));
}

// What ends with a few passes is a recommendation, but no baseline.
TEST(Markdown, AFinalRoundTooShortForACheckSaysSo) {
  RunReport report = example_with_final_round();
  const char* const words = "'moetune ci' needs 6 such passes to tell a slowdown from noise";
  EXPECT_FALSE(has_text(to_markdown(report), words));
  report.verdict.final_round->passes = 4;
  EXPECT_TRUE(has_text(to_markdown(report), words));
  EXPECT_TRUE(has_text(final_words(report), "and finds only failures and lost accuracy with these 4"));
  report.verdict.final_round->finalists[0].trial = 1;  // the default could not be measured
  EXPECT_TRUE(final_words(report).starts_with(words));
}

TEST(Markdown, ADefaultThatWasMeasuredAgainAloneIsSo) {
  RunReport report = example_with_final_round();
  report.verdict.final_round->finalists.resize(1);
  const std::string text = to_markdown(report);
  EXPECT_TRUE(has_text(text, "The default was measured again alone, 9 times in fresh processes")) << text;
  EXPECT_TRUE(has_text(text, "alone: 9 passes, each in a fresh process"));
  EXPECT_FALSE(has_text(text, "0 finalists"));
}

TEST(Markdown, AMissingFinalRoundIsSaidFirst) {
  RunReport report = example_report();
  report.verdict.caution = "NOT MEASURED AGAIN: no final round.";
  const std::string text = to_markdown(report);
  EXPECT_TRUE(has_text(text, "## What to launch\n\n**NOT MEASURED AGAIN: no final round.**\n\n"));
  EXPECT_FALSE(has_text(text, "## The final round"));
}

TEST(Markdown, NothingMeasuredIsAReportToo) {
  RunReport report = example_report();
  report.trials.clear();
  report.front.clear();
  report.verdict = {.recommended = {}, .reason = "no trial yet", .runner_up = {}, .why_not_runner_up = ""};
  const std::string text = to_markdown(report);
  EXPECT_TRUE(has_text(text, "**Nothing can be recommended.** no trial yet"));
  EXPECT_TRUE(has_text(text, "It is empty"));
}

TEST(Markdown, HostileTextsStayText) {
  RunReport report = example_report();
  report.request.model = "</h1># | `x`\n## injected";
  report.trials[1].configuration.values["top_k"] = "7`|\n```";
  report.verdict.reason = "a\n\n## injected";
  report.request.command.emplace_back("\n```\n## injected");
  const std::string text = to_markdown(report);
  EXPECT_EQ(text.find("\n## injected"), std::string::npos);
  std::size_t fences = 0;
  for (std::size_t at = text.find("\n```"); at != std::string::npos; at = text.find("\n```", at + 1))
    ++fences;
  EXPECT_EQ(fences, 4U) << "two blocks, opened and closed";
}

}  // namespace
}  // namespace moetune
