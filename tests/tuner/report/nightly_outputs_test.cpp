// A night's check in the forms that CI systems read: what they show, and that nothing from outside breaks
// them.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tuner/report/annotations.h"
#include "tuner/report/junit.h"
#include "tuner/report/nightly_prometheus.h"
#include "tuner/report/nightly_summary.h"

namespace moetune {
namespace {

NightlyPoint point(NightlyRole role, const std::string& top_k, double then, double now) {
  NightlyPoint made;
  made.role = role;
  made.configuration.values = {{"top_k", top_k}};
  made.then["tpot_ms"].value = then;
  made.now["tpot_ms"].value = now;
  for (const double mood : {0.3, -0.8, 1.0, -0.2, 0.0, 0.6, -1.0, -0.5, 0.7}) {
    made.rounds_then.push_back(then * (1.0 + 0.01 * mood));
    made.rounds_now.push_back(now * (1.0 + 0.01 * mood));
  }
  return made;
}

NightlyRecord record(double factor) {
  NightlyRecord made;
  made.started = "2026-11-30T03:00:00Z";
  made.baseline = "nightly/profile.json";
  made.model = "tiny-moe";
  made.workload = "chat";
  made.device = "cpu";
  made.build = "0.1.0 abc";
  made.seconds = 61.5;
  made.input.objective = objectives_named("tpot_ms").front();
  made.input.gate = gate_named("none");
  made.input.points = {point(NightlyRole::baseline, "7", 1.0, factor),
                       point(NightlyRole::standard, "8", 2.0, 2.0)};
  compare_rounds(made.input.points, made.input.objective);
  made.result = judge_nightly(made.input);
  return made;
}

TEST(Junit, ARegressionIsAFailureOfTheVerdictAndOfTheBaseline) {
  const std::string text = to_junit(record(1.2));
  EXPECT_TRUE(has_text(
      text, "<testsuite name=\"moetune ci\" tests=\"5\" failures=\"2\" errors=\"0\" time=\"61.500\""))
      << text;
  EXPECT_TRUE(has_text(text, "<testcase classname=\"moetune.ci.tiny-moe.chat\" name=\"baseline tpot_ms\""));
  EXPECT_TRUE(has_text(text, "<failure type=\"regression\" message=\"20.0 % slower")) << text;
  EXPECT_TRUE(has_text(text, "tpot_ms: now 1.20 ms per token, formerly 1.00 ms per token")) << text;
}

TEST(Junit, OkHasNeitherAndTheUnjudgedIsAnError) {
  EXPECT_TRUE(has_text(to_junit(record(1.0)), "tests=\"5\" failures=\"0\" errors=\"0\""));
  NightlyRecord busy = record(1.2);
  busy.input.other_work = {"cc1plus (process 17, 0.9 cores)"};
  busy.result = judge_nightly(busy.input);
  const std::string text = to_junit(busy);
  EXPECT_TRUE(has_text(text, "failures=\"0\" errors=\"2\"")) << text;
  EXPECT_TRUE(has_text(text, "<error type=\"indeterminate\" message=\"other work: cc1plus")) << text;
}

TEST(Junit, AFailedCanaryIsAFailureOfItsOwn) {
  NightlyRecord failed = record(1.0);
  failed.input.points[1].failure = "timed_out: no result within 5 s";
  failed.result = judge_nightly(failed.input);
  const std::string text = to_junit(failed);
  EXPECT_TRUE(has_text(text, "failures=\"1\" errors=\"0\"")) << text;
  EXPECT_TRUE(has_text(text, "message=\"timed_out: no result within 5 s\""));
}

TEST(Junit, NothingFromOutsideIsMarkup) {
  EXPECT_EQ(xml_text("a<b>&\"c\"\n\x01\xff"), "a&lt;b&gt;&amp;&quot;c&quot;&#10; ?");
  EXPECT_EQ(xml_text("\nit's\n\n"), "&#10;it&#39;s&#10;&#10;");
  NightlyRecord evil = record(1.0);
  evil.model = "</testsuites><x a=\"";
  EXPECT_FALSE(has_text(to_junit(evil), "<x"));
}

TEST(Annotations, AreAnErrorAWarningOrANotice) {
  EXPECT_TRUE(
      to_annotations(record(1.2))
          .starts_with(
              "::error title=moetune ci regression::tiny-moe, workload chat: tpot_ms is 20.0 %25 slower"));
  EXPECT_TRUE(to_annotations(record(1.0)).starts_with("::notice title=moetune ci ok::"));
  NightlyRecord busy = record(1.0);
  busy.input.other_work = {"x"};
  busy.result = judge_nightly(busy.input);
  EXPECT_TRUE(to_annotations(busy).starts_with("::warning title=moetune ci indeterminate::"));
  EXPECT_EQ(annotation_text("50 %\r\n::error::x"), "50 %25%0D%0A::error::x");
}

TEST(Prometheus, HoldsOneVerdictAndEveryBound) {
  const std::string text = to_prometheus(record(1.2));
  const std::string labels = "model=\"tiny-moe\",workload=\"chat\",device=\"cpu\"";
  EXPECT_TRUE(has_text(text, "# TYPE moetune_ci_verdict gauge\n"));
  EXPECT_TRUE(has_text(text, "moetune_ci_verdict{" + labels + ",verdict=\"regression\"} 1\n"));
  EXPECT_TRUE(has_text(text, "moetune_ci_verdict{" + labels + ",verdict=\"ok\"} 0\n"));
  EXPECT_TRUE(has_text(text, "moetune_ci_slowdown_ratio{" + labels + ",role=\"baseline\",bound=\"low\"} 0.1"))
      << text;
  EXPECT_TRUE(has_text(
      text, "moetune_ci_metric{" + labels + ",role=\"default\",metric=\"tpot_ms\",bound=\"value\"} 2\n"));
  EXPECT_TRUE(has_text(text, "moetune_ci_threshold_ratio{" + labels + "} 0.05\n"));
}

TEST(NightlySummary, ShowsBothNightsAndWhy) {
  const std::string text = to_markdown(record(1.2));
  EXPECT_TRUE(text.starts_with("## moetune ci: regression\n\ntiny-moe, workload chat, on cpu: ")) << text;
  EXPECT_TRUE(
      has_text(text, "| baseline | `top_k=7` | 1.00 ms per token | 1.20 ms per token | 20.0 % slower"))
      << text;
  EXPECT_TRUE(has_text(text, "| default | `top_k=8` |"));
  EXPECT_TRUE(has_text(text, "threshold 5 %"));
}

}  // namespace
}  // namespace moetune
