#include "tuner/report/prometheus.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace moetune {
namespace {

TEST(PrometheusText, OneHeaderPerFamily) {
  PrometheusText out;
  out.add("moetune_tpot_ms", "time per token", {{"model", "a"}}, 1.5);
  out.add("moetune_ok", "verdict", {}, 1.0);
  out.add("moetune_tpot_ms", "said once only", {{"model", "b"}}, 2.0);
  EXPECT_EQ(out.text(),
            "# HELP moetune_tpot_ms time per token\n# TYPE moetune_tpot_ms gauge\n"
            "moetune_tpot_ms{model=\"a\"} 1.5\nmoetune_tpot_ms{model=\"b\"} 2\n"
            "# HELP moetune_ok verdict\n# TYPE moetune_ok gauge\nmoetune_ok 1\n");
}

TEST(PrometheusText, HostileLabelsStayOnTheirLine) {
  PrometheusText out;
  out.add("m", "help with\nline end and \\", {{"model", "a\"} 7\nevil 1\\"}}, 1.0);
  EXPECT_EQ(out.text(),
            "# HELP m help with\\nline end and \\\\\n# TYPE m gauge\nm{model=\"a\\\"} 7\\nevil 1\\\\\"} 1\n");
}

TEST(PrometheusText, NamesAndRepetitionsAreChecked) {
  PrometheusText out;
  EXPECT_THROW(out.add("tpot ms", "", {}, 1.0), std::invalid_argument);
  EXPECT_THROW(out.add("1m", "", {}, 1.0), std::invalid_argument);
  EXPECT_THROW(out.add("m", "", {{"a-b", ""}}, 1.0), std::invalid_argument);
  out.add("m", "", {{"a", "1"}}, 1.0);
  EXPECT_THROW(out.add("m", "", {{"a", "1"}}, 2.0), std::invalid_argument);
}

TEST(PrometheusText, AProfileWithItsIntervals) {
  LaunchProfile profile;
  profile.model = "tiny-moe";
  profile.hardware.device = "cpu";
  profile.recommended.configuration = {{"top_k", "7"}};
  Evidence tpot;
  tpot.metric = "tpot_ms";
  tpot.value = 0.275;
  profile.default_point.emplace().evidence = {tpot};
  tpot.value = 0.24;
  tpot.low = 0.23;
  tpot.p99 = 0.5;
  profile.recommended.evidence = {tpot};
  const std::string text = profile_metrics(profile);
  for (const char* const line :
       {"moetune_tpot_ms{model=\"tiny-moe\",workload=\"chat\",device=\"cpu\",configuration=\"recommended\","
        "origin=\"measured\",bound=\"value\"} 0.24\n",
        "bound=\"low\"} 0.23\n", "bound=\"p99\"} 0.5\n",
        "configuration=\"default\",origin=\"measured\",bound=\"value\"} 0.275\n", "knob_top_k=\"7\"} 1\n"})
    EXPECT_TRUE(has_text(text, line));
}

}  // namespace
}  // namespace moetune
