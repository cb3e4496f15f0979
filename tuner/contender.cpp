#include "tuner/contender.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tuner/metric_facts.h"
#include "tuner/pareto.h"
#include "tuner/statistics.h"

namespace moetune {
namespace {

// Bytes are counted, not sampled: they are their own interval.
bool is_exact(const Objective& objective) {
  const MetricFacts* facts = find_metric(objective.metric);
  return facts != nullptr && facts->unit == "bytes";
}

std::optional<Interval> interval_of(const Measurement& measurement, const Objective& objective) {
  if (measurement.low && measurement.high) {
    const double a = turned(objective, *measurement.low);
    const double b = turned(objective, *measurement.high);
    return Interval{std::min(a, b), std::max(a, b)};
  }
  if (!is_exact(objective)) return std::nullopt;
  const double value = turned(objective, measurement.value);
  return Interval{value, value};
}

bool agrees_with_default(const Configuration& configuration, const ChoiceInput& input) {
  const auto value_in = [](const Configuration& from, const std::string& name) {
    const auto found = from.values.find(name);
    return found == from.values.end() ? std::string() : found->second;
  };
  return std::all_of(input.accuracy_parameters.begin(), input.accuracy_parameters.end(),
                     [&](const std::string& name) {
                       return value_in(configuration, name) == value_in(input.default_configuration, name);
                     });
}

int changes_from(const Configuration& configuration, const Configuration& default_configuration) {
  int changes = 0;
  for (const auto& [name, value] : configuration.values) {
    const auto found = default_configuration.values.find(name);
    changes += found == default_configuration.values.end() || found->second != value ? 1 : 0;
  }
  return changes;
}

std::string percent(double share) {
  return share < 0.0995 ? fmt::format("{:.1f} %", 100.0 * share) : fmt::format("{:.0f} %", 100.0 * share);
}

double relative_difference(const Contender& contender, const Contender& other) {
  return other.value == 0.0 ? 0.0 : std::abs(contender.value - other.value) / std::abs(other.value);
}

// "tpot_p99" is the p99 of tpot_ms, "ttft" the value of ttft_ms.
std::string metric_of(const Slo& slo) {
  const std::string name =
      slo.metric.ends_with("_p99") ? slo.metric.substr(0, slo.metric.size() - 4) : slo.metric;
  return name + "_ms";
}

}  // namespace

std::optional<double> value_for(const Slo& slo, const Metrics& metrics) {
  const auto found = metrics.find(metric_of(slo));
  if (found == metrics.end()) return std::nullopt;
  return slo.metric.ends_with("_p99") ? found->second.p99 : found->second.value;
}

std::optional<double> least_value_for(const Slo& slo, const Metrics& metrics) {
  if (const auto ms = value_for(slo, metrics)) return ms;
  const auto found = metrics.find(metric_of(slo));
  return found == metrics.end() ? std::nullopt : std::optional(found->second.value);
}

std::optional<bool> keeps(const Slo& slo, const Metrics& metrics) {
  if (const auto ms = value_for(slo, metrics)) return *ms <= slo.limit_ms;
  const auto found = metrics.find(metric_of(slo));
  if (found == metrics.end()) return std::nullopt;
  const double surely = found->second.low.value_or(found->second.value);
  return surely > slo.limit_ms ? std::optional(false) : std::nullopt;
}

std::vector<Contender> contenders(const ChoiceInput& input, const FinalRound* round) {
  std::vector<Contender> all;
  const Objective& objective = input.objectives.front();
  for (const Trial* trial : latest_ok_trials(input.trials)) {
    const auto values = values_of(*trial, input.objectives.first(1));
    if (!values) continue;
    Contender contender;
    contender.trial = trial;
    contender.metrics = trial->metrics;
    contender.search_value = values->front();
    if (const Finalist* finalist = round == nullptr ? nullptr : round->find(trial->number)) {
      contender.failure = finalist->failure;
      contender.measured_again = finalist->failure.empty();
      contender.ratio = finalist->ratio;
      if (contender.measured_again) contender.metrics = with_final_times(trial->metrics, *finalist);
    }
    const Measurement& measured = contender.metrics.at(objective.metric);
    contender.value = turned(objective, measured.value);
    // Ranked by what was compared within passes; the medians over all passes hold the moods between them as
    // well.
    if (contender.ratio)
      contender.value = turned(
          objective, contender.ratio->value * round->finalists.front().metrics.at(objective.metric).value);
    contender.interval = interval_of(measured, objective);
    contender.changes = changes_from(trial->configuration, input.default_configuration);
    contender.is_default = trial->configuration == input.default_configuration;
    contender.gate = judge(trial->metrics, input.gate);
    contender.accurate_enough =
        contender.gate.verdict == GateVerdict::met ||
        (contender.gate.verdict == GateVerdict::unknown && agrees_with_default(trial->configuration, input));
    if (input.slo) contender.keeps_slo = keeps(*input.slo, contender.metrics);
    all.push_back(std::move(contender));
  }
  // Where nothing keeps the service level it cannot choose.
  const auto could_run = [](const Contender& contender) {
    return contender.accurate_enough && contender.failure.empty();
  };
  const bool slo_chooses = std::any_of(all.begin(), all.end(), [&](const Contender& contender) {
    return could_run(contender) && contender.keeps_slo.value_or(true);
  });
  for (Contender& contender : all)
    contender.acceptable = could_run(contender) && (!slo_chooses || contender.keeps_slo.value_or(true));
  return all;
}

bool clears(const Contender& a, const Contender& b) {
  return a.interval && b.interval && a.interval->high < b.interval->low;
}

bool clears_default(const Contender& contender, const Contender& default_contender,
                    const Objective& objective) {
  if (!contender.ratio) return clears(contender, default_contender);
  if (!contender.ratio->low || !contender.ratio->high) return false;
  return objective.maximize ? *contender.ratio->low > 1.0 : *contender.ratio->high < 1.0;
}

std::string ratio_text(const Measurement& ratio, const std::string& reference) {
  const auto size = [](double value) { return percent(std::abs(1.0 - value)); };
  const auto difference = [&](double value) { return size(value) + (value < 1.0 ? " under" : " over"); };
  const std::string value =
      reference.empty() ? difference(ratio.value) : fmt::format("{} {}", difference(ratio.value), reference);
  if (!ratio.low || !ratio.high) return value;
  const std::string kind = has_known_confidence(ratio) ? "95 % interval" : "range";
  if ((*ratio.low < 1.0) != (*ratio.high < 1.0))
    return fmt::format("{} ({} {} to {})", value, kind, difference(*ratio.low), difference(*ratio.high));
  const bool is_under = ratio.value < 1.0;  // the smaller difference first
  return fmt::format("{} ({} {} to {})", value, kind, size(is_under ? *ratio.high : *ratio.low),
                     size(is_under ? *ratio.low : *ratio.high));
}

std::string changes_text(const Contender& contender, const Configuration& default_configuration) {
  if (contender.is_default) return "the default configuration";
  std::string text;
  for (const auto& [name, value] : contender.trial->configuration.values) {
    const auto found = default_configuration.values.find(name);
    if (found != default_configuration.values.end() && found->second == value) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  }
  return text.empty() ? "the default's values" : text;
}

std::string measured_text(const Contender& contender, const Objective& objective) {
  const Measurement& measurement = contender.metrics.at(objective.metric);
  std::string text = value_text(objective.metric, measurement.value);
  if (measurement.low && measurement.high)
    text += fmt::format(" ({})", interval_text(objective.metric, *measurement.low, *measurement.high));
  return text;
}

std::string difference_text(const Contender& contender, const Contender& other, const Objective& objective) {
  const double difference = relative_difference(contender, other);
  if (difference == 0.0) return "as good as";
  const bool is_smaller = (contender.value < other.value) != objective.maximize;
  return percent(difference) + (is_smaller ? " under" : " over");
}

std::string better_text(const Contender& contender, const Contender& other) {
  const double difference = relative_difference(contender, other);
  if (difference == 0.0) return "equal";
  return percent(difference) + (contender.value < other.value ? " better" : " worse");
}

std::string gate_text(const Contender& contender, const ChoiceInput& input) {
  if (contender.gate.verdict != GateVerdict::unknown) return contender.gate.words;
  const char* const cause =
      is_synthetic(contender.metrics) ? "synthetic weights have none" : "none was measured";
  return contender.accurate_enough
             ? fmt::format("accuracy unknown ({}), but it keeps the model's own top-k and number types",
                           cause)
             : fmt::format(
                   "accuracy unknown ({}), so nothing that changes the output is recommended under the {} "
                   "gate",
                   cause, input.gate.name);
}

std::string others_text(const Contender& contender, const Contender* default_contender,
                        const ChoiceInput& input) {
  std::string text;
  for (const Objective& objective : input.objectives.subspan(1)) {
    if (objective.metric == "kl_mean" || objective.metric == "top1_agreement") continue;
    const auto own = contender.metrics.find(objective.metric);
    if (own == contender.metrics.end()) continue;
    text += fmt::format("{}{} {}", text.empty() ? " Also: " : ", ", objective.metric,
                        value_text(objective.metric, own->second.value));
    if (default_contender == nullptr || contender.is_default) continue;
    const auto theirs = default_contender->metrics.find(objective.metric);
    if (theirs != default_contender->metrics.end())
      text += fmt::format(" (default {})", value_text(objective.metric, theirs->second.value));
  }
  return text.empty() ? text : text + ".";
}

std::string slo_text(const Contender& contender, const ChoiceInput& input) {
  if (!input.slo) return "";
  const std::string level =
      fmt::format("the service level {} <= {} ms", input.slo->metric, input.slo->limit_ms);
  const std::string metric = metric_of(*input.slo);
  const auto keeps_it = keeps(*input.slo, contender.metrics);
  if (!keeps_it)
    return level + " is not known to be kept: " +
           (contender.metrics.contains(metric) ? "too few samples" : "it was not measured");
  const bool is_known = value_for(*input.slo, contender.metrics).has_value();
  return fmt::format("{} {}: {}{} ms", *keeps_it ? "meets" : "misses", level,
                     is_known ? "" : "its median alone is ",
                     number_text(metric, *least_value_for(*input.slo, contender.metrics)));
}

std::string rejection_text(const Contender& contender, const ChoiceInput& input) {
  if (!contender.failure.empty()) return "failed when it was measured again: " + contender.failure;
  return contender.accurate_enough ? slo_text(contender, input) : gate_text(contender, input);
}

}  // namespace moetune
