#include "tuner/report/knob_effects.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "tuner/pareto.h"
#include "tuner/report/escape.h"
#include "tuner/report/metric_column.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

// Values of the objective by that of one knob, of trials that are the same in every other.
using ByValue = std::map<std::string, double>;

std::vector<ByValue> groups_of(const RunReport& report, const std::string& knob) {
  const std::string& metric = report.objectives.front().metric;
  std::map<Configuration, ByValue> groups;
  for (const Trial* trial : latest_ok_trials(report.trials)) {
    const auto found = trial->metrics.find(metric);
    const auto set = trial->configuration.values.find(knob);
    if (found == trial->metrics.end() || set == trial->configuration.values.end()) continue;
    Configuration others = trial->configuration;
    others.values.erase(knob);
    groups[others][set->second] = found->second.value;
  }
  std::vector<ByValue> all;
  for (auto& [others, by_value] : groups) all.push_back(std::move(by_value));
  return all;
}

}  // namespace

std::vector<KnobEffect> knob_effects(const RunReport& report) {
  std::vector<KnobEffect> effects;
  if (report.trials.empty() || report.objectives.empty()) return effects;
  for (const auto& [knob, usual] : report.trial(0).configuration.values) {
    struct Pairs {
      std::vector<double> usual, changes, ratios;
    };
    std::map<std::string, Pairs> by_value;
    for (const ByValue& group : groups_of(report, knob)) {
      const auto base = group.find(usual);
      if (base == group.end() || base->second <= 0.0) continue;
      for (const auto& [value, measured] : group) {
        if (value == usual) continue;
        Pairs& pairs = by_value[value];
        pairs.usual.push_back(base->second);
        pairs.changes.push_back(measured - base->second);
        pairs.ratios.push_back(measured / base->second);
      }
    }
    for (const auto& [value, pairs] : by_value) {
      const auto [least, most] = std::ranges::minmax(pairs.changes);
      effects.push_back({.knob = knob,
                         .value = value,
                         .usual = usual,
                         .pairs = pairs.changes.size(),
                         .usual_median = median(pairs.usual),
                         .change = median(pairs.changes),
                         .least = least,
                         .most = most,
                         .ratio = median(pairs.ratios)});
    }
  }
  return effects;
}

std::string knob_effects_section(const RunReport& report) {
  const std::vector<KnobEffect> effects = knob_effects(report);
  if (effects.empty()) return "";
  const MetricColumn column(report.objectives.front().metric, report.trials);
  const auto number = [&](double value) {
    return (value < 0.0 ? "-" : "+") + column.number(value < 0.0 ? -value : value);
  };
  std::string text = fmt::format(
      "## What one knob changes\n\nPairs of trials that differ in one knob alone, each measured once: the "
      "median change of "
      "{} against the default's value of that knob.\n\n| knob | in place of | pairs | default's | change | "
      "least to most | % "
      "|\n| --- | --- | --- | --- | --- | --- | --- |\n",
      markdown_text(column.heading()));
  for (const KnobEffect& effect : effects)
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {:+.1f} % |\n", markdown_code(effect.knob + "=" + effect.value),
        markdown_code(effect.usual), effect.pairs, column.number(effect.usual_median), number(effect.change),
        effect.pairs > 1 ? fmt::format("{} to {}", number(effect.least), number(effect.most)) : "",
        100.0 * (effect.ratio - 1.0));
  return text + "\n";
}

}  // namespace moetune
