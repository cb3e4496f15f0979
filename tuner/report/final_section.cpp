#include "tuner/report/final_section.h"

#include <cmath>

#include <fmt/format.h>

#include "tuner/contender.h"
#include "tuner/metric_facts.h"
#include "tuner/report/escape.h"
#include "tuner/report/metric_column.h"
#include "tuner/slowdown.h"

namespace moetune {
namespace {

bool starts_with_default(const FinalRound& round) { return round.finalists.front().trial == 0; }

// Does the ratio say that it beats the first finalist beyond doubt?
bool is_better(const Measurement& ratio, const Objective& objective) {
  if (!ratio.low || !ratio.high) return false;
  return objective.maximize ? *ratio.low > 1.0 : *ratio.high < 1.0;
}

// A profile of so few passes is one that no later night can be compared with; empty: there are enough.
std::string too_few_for_a_check(const FinalRound& round) {
  if (round.passes >= fewest_rounds) return "";
  return fmt::format(
      "'moetune ci' needs {} such passes to tell a slowdown from noise and finds only failures and lost "
      "accuracy with these {}; a larger --budget gives more.",
      fewest_rounds, round.passes);
}

// How the machine changed meanwhile, seen by the first finalist: what interleaving takes out of the ratios.
std::string mood_text(const FinalRound& round, const std::string& metric) {
  const std::vector<double>& values = round.reference_by_pass;
  if (values.size() < 2) return "";
  std::string each;
  for (const double value : values) each += (each.empty() ? "" : ", ") + number_text(metric, value);
  std::string text =
      fmt::format("Drift between the passes: trial {} had {} in turn", round.finalists.front().trial, each);
  if (const auto drift = drift_of(round))
    text += fmt::format("; its last third is {:.1f} % {} its first", 100.0 * std::abs(*drift),
                        *drift < 0.0 ? "under" : "over");
  return text + ".\n\n";
}

}  // namespace

std::string control_words(const FinalRound& round) {
  std::string text;
  if (const auto itself = against_itself(round)) {
    const bool holds = *itself->low <= 1.0 && *itself->high >= 1.0;
    text = fmt::format(
        "Control: trial {} against itself, in the two passes of each block, comes to {}{}.",
        round.finalists.front().trial, ratio_text(*itself),
        holds
            ? ": so far apart are two processes of one configuration here"
            : ", WHICH IS A FALSE ALARM: this machine drifts between passes, and only ratios within one mean "
              "anything");
  }
  if (round.load_seconds > 0.0 && round.seconds > 0.0)
    text += fmt::format("{}Loading and converting weights took {:.0f} % of the round.",
                        text.empty() ? "" : " ", 100.0 * round.load_seconds / round.seconds);
  return text;
}

std::string final_words(const RunReport& report) {
  if (!report.verdict.final_round) return report.verdict.caution;
  const FinalRound& round = *report.verdict.final_round;
  if (!starts_with_default(round)) return too_few_for_a_check(round);
  const Objective& objective = report.objectives.front();
  std::string each;
  int better = 0;
  for (const Finalist& finalist : round.finalists) {
    if (!finalist.ratio && finalist.failure.empty()) continue;  // the default itself
    each += fmt::format("{}trial {} {}", each.empty() ? "" : ", ", finalist.trial,
                        finalist.ratio ? ratio_text(*finalist.ratio) : "failed (" + finalist.failure + ")");
    better += finalist.ratio && is_better(*finalist.ratio, objective) ? 1 : 0;
  }
  const std::size_t finalists = round.finalists.size() - 1;
  if (finalists == 0 && !each.empty()) return "";  // the recommendation names the failure
  if (finalists == 0)
    return fmt::format(
        "The default was measured again alone, {} times in fresh processes: nothing else that is acceptable "
        "came near it in the search. {}",
        round.passes,
        round.passes < fewest_rounds
            ? fmt::format("'moetune ci' needs {} such times; a larger --budget gives them.", fewest_rounds)
            : "'moetune ci' compares with these times.");
  const std::string who = finalists == 1 ? fmt::format("the finalist is {}better", better == 1 ? "" : "not ")
                                         : fmt::format("{} of {} finalists {} better",
                                                       better == 0 ? "none" : std::to_string(better),
                                                       finalists, better == 1 ? "is" : "are");
  const std::string too_few = too_few_for_a_check(round);
  return fmt::format(
      "Measured again in turns with the default, {} times in fresh processes, {} than it in {} beyond doubt "
      "(the value over the default's in the same pass): {}.{}{}",
      round.passes, who, objective.metric, each, too_few.empty() ? "" : " ", too_few);
}

namespace {

std::string how_it_was_made(const FinalRound& round) {
  if (round.finalists.size() == 1)
    return fmt::format(
        "Nothing else that is acceptable came near it in the search, so one configuration was measured again "
        "alone: {} passes, each in a fresh process. There is nothing to compare it with tonight; {}.\n\n",
        round.passes,
        round.passes < fewest_rounds
            ? fmt::format(
                  "'moetune ci' needs {} passes to compare a later night with, which a larger --budget gives",
                  fewest_rounds)
            : "'moetune ci' compares a later night with these passes");
  return fmt::format(
      "The default and the best of the search, measured again in turns: {} passes, in each of them every "
      "finalist once, all in one fresh process. The verdict rests on these times. What is compared are "
      "ratios "
      "within a pass, as the machine's mood is the same there; their interval is that of the median over the "
      "passes{}. The search's value is what the same configuration had when it was measured once, among all "
      "others.\n\n",
      round.passes,
      round.passes < fewest_rounds
          ? " (so few passes have no 95 % interval: it is the range of all passes with the noise in each)"
          : " (95 % for all finalists at once)");
}

}  // namespace

std::string final_section(const RunReport& report) {
  if (!report.verdict.final_round) return "";
  const FinalRound& round = *report.verdict.final_round;
  const std::string& metric = report.objectives.front().metric;
  const MetricColumn column(metric, report.trials);
  std::string text = "## The final round\n\n" + how_it_was_made(round);
  text += fmt::format(
      "| trial | {} in the final round | to trial {} | {} in the search | role |\n| --- | --- | --- | --- | "
      "--- |\n",
      markdown_text(column.heading()), round.finalists.front().trial, metric);
  for (const Finalist& finalist : round.finalists) {
    const Trial& searched = report.trial(finalist.trial);
    const std::string again = finalist.failure.empty() ? column.cell(report.measured_last(finalist.trial))
                                                       : "failed: " + markdown_text(finalist.failure);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", finalist.trial, again,
                        finalist.ratio ? markdown_text(ratio_text(*finalist.ratio)) : "-",
                        column.cell(searched), report.role_of(finalist.trial));
  }
  const std::string control = control_words(round);
  return text + "\n" + (control.empty() ? "" : markdown_text(control) + "\n\n") + mood_text(round, metric);
}

}  // namespace moetune
