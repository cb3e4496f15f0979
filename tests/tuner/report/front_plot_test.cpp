#include "tuner/report/front_plot.h"

#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/tuner/support/report_example.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

const Terminal plain{.interactive = false, .colour = false, .columns = 80};

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, character_count(line));
  return widest;
}

TEST(FrontPlot, DrawsScatterAndTable) {
  const std::string text = draw_front(example_report(), plain);
  EXPECT_TRUE(has_text(text, "kl_mean (nats), logarithmic\n"));
  // Slowest and most accurate: bottom right. Fastest and least accurate: top left.
  EXPECT_TRUE(has_text(text, "  0.1200 |o\n"));
  EXPECT_TRUE(has_text(text, " 1.0e-04 |" + std::string(69, ' ') + "D\n"));
  EXPECT_TRUE(has_text(text, "R recommended  D default  o front  . other   (better: left, down)"));
  EXPECT_TRUE(has_text(text, "R     1  2.50 (2.45-2.55)"));
  EXPECT_TRUE(has_text(text, "         top_k=7\n"));
  EXPECT_TRUE(has_text(text, "D     0  3.00 (2.94-3.06)"));
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(FrontPlot, SaysWhatHasNoPlaceOnALogarithmicAxis) {
  RunReport report = example_report();
  report.trials[0].metrics["kl_mean"].value = 0.0;  // the reference itself
  report.trials[1].metrics["kl_mean"].value = 1e-3;
  const std::string text = draw_front(report, plain);
  EXPECT_TRUE(has_text(text, "kl_mean (nats), logarithmic, 0 lies at the bottom\n"));
  EXPECT_TRUE(has_text(text, "0.001000 |" + std::string(46, ' ') + "R" + std::string(22, ' ') + "D\n"));

  report.trials[1].metrics["kl_mean"].value = 1e-12;
  EXPECT_TRUE(has_text(draw_front(report, plain), "logarithmic, 0 and what is less lie at the bottom\n"));
  report.trials[0].metrics["kl_mean"].value = 1e-4;
  EXPECT_TRUE(has_text(draw_front(report, plain), "logarithmic, what is less lies at the bottom\n"));

  report = example_report();
  report.objectives = objectives_named("kl_mean,tpot_ms");
  report.trials[0].metrics["kl_mean"].value = 0.0;
  report.trials[1].metrics["kl_mean"].value = 1e-3;
  EXPECT_TRUE(has_text(draw_front(report, plain), "kl_mean (nats), logarithmic, 0 lies at the left\n"));
}

TEST(FrontPlot, KeepsToTheColumns) {
  RunReport report = example_report();
  report.trials[1].configuration.values["a_knob_with_a_long_name"] = std::string(200, 'x') + "\xC3\xA4";
  report.trials[3].reason = std::string(300, 'y');
  report.objectives = objectives_named("tpot_ms,kl_mean,device_bytes,top1_agreement");
  for (const int columns : {20, 40, 61, 80, 200}) {
    const Terminal terminal{.interactive = true, .colour = false, .columns = columns};
    EXPECT_LE(widest_line(draw_front(report, terminal)),
              static_cast<std::size_t>(std::clamp(columns, 40, 80)))
        << columns;
  }
}

TEST(FrontPlot, ColoursOnlyWhereAsked) {
  const std::string text = draw_front(example_report(), {.interactive = true, .colour = true, .columns = 80});
  EXPECT_TRUE(has_text(text, "\033[1;32mR\033[0m"));
}

TEST(FrontPlot, EveryKindOfValuesCanBeDrawn) {
  for (const double kl : {0.0, 0.5, -3.0, 1e300, 5e-324}) {
    for (const double other : {0.0, 0.5, 1e-9, -1e300}) {
      RunReport report = example_report();
      report.trials = {measured_trial(0, "8", 3.0, kl), measured_trial(1, "7", 3.0, other)};
      report.front = {0, 1};
      const std::string text = draw_front(report, plain);
      EXPECT_TRUE(has_text(text, "R     1")) << kl << " " << other;
      EXPECT_LE(widest_line(text), 80U);
    }
  }
}

TEST(FrontPlot, OneObjectiveHasATableOnly) {
  RunReport report = example_report();
  report.objectives = objectives_named("tpot_ms");
  report.front = {2};
  const std::string text = draw_front(report, plain);
  EXPECT_EQ(text.find('|'), std::string::npos);
  EXPECT_TRUE(has_text(text, "R     1  2.50 (2.45-2.55)"))
      << "the recommended one is shown although it is not on the front";
}

TEST(FrontPlot, ALongFrontIsCutAndSaysSo) {
  RunReport report = example_report();
  report.trials.clear();
  report.front.clear();
  for (std::int64_t i = 0; i < 30; ++i) {
    report.trials.push_back(measured_trial(i, std::to_string(i), 1.0 + static_cast<double>(i),
                                           1.0 / (1.0 + static_cast<double>(i))));
    report.front.push_back(i);
  }
  EXPECT_TRUE(has_text(draw_front(report, plain), "18 more are in front.csv"));
}

TEST(FrontPlot, AnEmptyFrontIsSaid) {
  RunReport report = example_report();
  report.front.clear();
  EXPECT_TRUE(has_text(draw_front(report, plain), "The front is empty"));
}

}  // namespace
}  // namespace moetune
