#include "tuner/targets/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/core.h>

#include "tuner/statistics.h"
#include "tuner/targets/block_ratio.h"
#include "tuner/targets/divergence.h"
#include "tuner/targets/occasional_words.h"
#include "tuner/targets/teacher_forcing.h"

namespace moetune {
namespace {

// Positions whose text is alike: about a sentence.
constexpr std::int64_t block_positions = 32;

Measurement measurement_of(const RatioInterval& ratio, std::int64_t n, double least, double most) {
  Measurement measurement;
  measurement.value = std::clamp(ratio.value, least, most);  // a sum of shares rounds
  measurement.low = std::clamp(ratio.low, least, most);
  measurement.high = std::clamp(ratio.high, least, most);
  measurement.n = n;
  return measurement;
}

// Agreement of 100 % has no spread, so the blocks would promise an interval of width zero; Wilson's interval
// does not.
Measurement agreement_of(const std::vector<double>& same, std::int64_t block) {
  const auto n = std::ssize(same);
  Measurement measurement = measurement_of(block_mean(same, block), n, 0.0, 1.0);
  const Interval wilson = share_interval(static_cast<std::int64_t>(std::ranges::count(same, 1.0)), n);
  measurement.low = std::min(*measurement.low, wilson.low);
  measurement.high = std::max(*measurement.high, wilson.high);
  return measurement;
}

// The 99th percentile over positions; empty where there are too few of them to tell it from the largest.
std::optional<Measurement> tail_of(const std::vector<double>& kl) {
  constexpr double p = 0.99;
  const auto interval = quantile_interval(kl, p);
  if (!interval) return std::nullopt;
  Measurement measurement;
  measurement.value = quantile(kl, p);
  measurement.low = interval->low;
  measurement.high = interval->high;
  measurement.n = std::ssize(kl);
  return measurement;
}

// Ratio of powers in decibels. A configuration that is bit-identical has no noise: JSON has no infinity, and
// nothing that differs at all comes near this (float32 logits resolve about 150 dB).
constexpr double most_db = 200.0;
double decibels(double ratio) {
  return ratio <= 0.0 ? most_db : std::min(most_db, -10.0 * std::log10(ratio));
}

Measurement snr_of(const AccuracySamples& samples, std::int64_t block) {
  const RatioInterval noise = block_ratio(samples.difference_power, samples.reference_power, block);
  Measurement measurement;
  measurement.value = decibels(noise.value);
  measurement.low = decibels(noise.high);
  measurement.high = decibels(noise.low);
  measurement.n = samples.size();
  return measurement;
}

// What the configuration and the reference chose at one position, gathered while the layers of a step go by.
class RoutingComparison {
 public:
  RoutingComparison(const ReferenceGroup& group, const ScoredText& text, const ModelSpec& spec)
      : group_(group), text_(text), flipped_(size_of(group)), chosen_(size_of(group)), mass_(size_of(group)) {
    int next = 0;
    for (const bool routes : spec.moe_layers) row_.push_back(routes ? next++ : -1);
  }

  void add(const ScoredPosition& at, int layer, std::span<const std::int32_t> ids) {
    const auto& shape = group_.shape;
    const std::int64_t first =
        (at.index(text_) * shape.moe_layers + row_.at(static_cast<std::size_t>(layer))) * shape.k;
    const auto expected =
        group_.expert_ids.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(shape.k));
    const auto weights =
        group_.expert_weights.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(shape.k));
    double all = 0.0;
    double held = 0.0;
    std::int64_t common = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      all += static_cast<double>(weights[i]);
      if (std::ranges::find(ids, expected[i]) == ids.end()) continue;
      held += static_cast<double>(weights[i]);
      ++common;
    }
    const auto index = static_cast<std::size_t>(at.index(text_));
    const std::int64_t chosen =
        std::ssize(ids) - std::ranges::count(ids, -1);  // without those that top_k_rule dropped
    flipped_[index] += static_cast<double>(chosen - common);
    chosen_[index] += static_cast<double>(chosen);
    mass_[index] += held / all / static_cast<double>(shape.moe_layers);
  }

  void append_to(AccuracySamples& samples) const {
    samples.flipped_experts.insert(samples.flipped_experts.end(), flipped_.begin(), flipped_.end());
    samples.chosen_experts.insert(samples.chosen_experts.end(), chosen_.begin(), chosen_.end());
    samples.router_mass.insert(samples.router_mass.end(), mass_.begin(), mass_.end());
  }

 private:
  static std::size_t size_of(const ReferenceGroup& group) {
    return static_cast<std::size_t>(group.shape.positions);
  }

  const ReferenceGroup& group_;
  const ScoredText& text_;
  std::vector<int> row_;  // of the group's routing, by transformer block
  std::vector<double> flipped_;
  std::vector<double> chosen_;
  std::vector<double> mass_;
};

// Scores one group; what is wrong with the output, or empty.
std::string score_group(Engine& engine, Reference& reference, int number, OccasionalWords& say,
                        AccuracySamples& samples) {
  const ScoredText& text = reference.text();
  const ReferenceGroup& group = reference.group(number);
  const auto vocabulary = static_cast<std::size_t>(group.shape.vocabulary);
  std::vector<PositionDivergence> divergences(static_cast<std::size_t>(group.shape.positions));
  RoutingComparison routing(group, text, engine.spec());
  std::int64_t done = samples.size();
  force_group(engine, text, number,
              {.logits =
                   [&](const ScoredPosition& at, std::span<const float> logits) {
                     const auto index = static_cast<std::size_t>(at.index(text));
                     const std::int32_t next = text.window(
                         number, at.slot)[static_cast<std::size_t>(text.warm_up() + at.position + 1)];
                     say([&] { return fmt::format("accuracy, position {}", done + 1); });
                     ++done;
                     divergences[index] =
                         compare_position(group.logits.subspan(index * vocabulary, vocabulary), logits, next);
                   },
               .routing = [&](const ScoredPosition& at, int layer, std::span<const std::int32_t> ids,
                              std::span<const float>) { routing.add(at, layer, ids); }});

  for (std::size_t index = 0; index < divergences.size(); ++index) {
    const PositionDivergence& divergence = divergences[index];
    if (!std::isfinite(divergence.kl))
      return fmt::format("logits that are not finite, first at position {} of the calibration windows",
                         static_cast<std::size_t>(samples.size()));
    samples.kl.push_back(divergence.kl);
    samples.same_top.push_back(divergence.same_top ? 1.0 : 0.0);
    samples.surprise_change.push_back(divergence.surprise_change);
    samples.reference_power.push_back(divergence.reference_power);
    samples.difference_power.push_back(divergence.difference_power);
  }
  routing.append_to(samples);
  return {};
}

}  // namespace

Metrics accuracy_metrics(const AccuracySamples& samples, std::int64_t scored) {
  // Blocks end where windows end.
  const std::int64_t block = scored % block_positions == 0 ? block_positions : scored;
  const std::int64_t n = samples.size();
  constexpr double unbounded = std::numeric_limits<double>::max();
  Metrics metrics;
  metrics["kl_mean"] = measurement_of(block_mean(samples.kl, block), n, 0.0, unbounded);
  if (const auto tail = tail_of(samples.kl)) metrics["kl_p99"] = *tail;
  metrics["top1_agreement"] = agreement_of(samples.same_top, block);
  metrics["output_snr_db"] = snr_of(samples, block);
  metrics["route_flip_rate"] =
      measurement_of(block_ratio(samples.flipped_experts, samples.chosen_experts, block), n, 0.0, 1.0);
  metrics["router_mass"] = measurement_of(block_mean(samples.router_mass, block), n, 0.0, 1.0);

  const RatioInterval surprise = block_mean(samples.surprise_change, block);
  metrics["perplexity_ratio"] = measurement_of(
      {std::exp(surprise.value), std::exp(surprise.low), std::exp(surprise.high)}, n, 0.0, unbounded);
  return metrics;
}

AccuracyResult measure_accuracy(Engine& engine, Reference& reference, const AccuracyPlan& plan) {
  AccuracyResult result;
  OccasionalWords say(plan.on_progress);
  for (int group = 0; group < plan.most_groups; ++group) {
    if (group >= plan.base_groups &&
        !plan.undecided(accuracy_metrics(result.samples, reference.text().scored())))
      break;
    result.wrong = score_group(engine, reference, group, say, result.samples);
    if (!result.wrong.empty()) return result;
  }
  result.metrics = accuracy_metrics(result.samples, reference.text().scored());
  return result;
}

}  // namespace moetune
