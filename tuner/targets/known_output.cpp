#include "tuner/targets/known_output.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "engine/facts/knobs.h"
#include "tuner/accuracy_gate.h"
#include "tuner/targets/divergence.h"

namespace moetune {
namespace {

constexpr int probe_tokens = 16;
constexpr double most_probe_kl =
    0.01;  // nats: five times what passes as lossless; a wrong kernel is far beyond
// Of synthetic weights only the signal-to-noise ratio is known, and every logit of a position is a sample of
// it: few positions are enough, in windows as short.
constexpr std::int64_t synthetic_positions = 256;
constexpr int synthetic_context = 48;
constexpr int extension = 4;  // at most this many times the base positions while a gate is open

// The tokens of the first scored window, one step each: their logits, all rows in one.
std::vector<float> probe_logits(Engine& engine, const ScoredText& text) {
  std::vector<float> all;
  // What is rerouted depends on what is in the cache: both engines have to begin with the same, which is
  // nothing.
  if (couples_sequences(engine.options())) engine.drop_expert_cache();
  const auto tokens =
      std::min<std::int64_t>({probe_tokens, engine.limits().context_tokens, text.context_tokens()});
  for (std::int64_t position = 0; position < tokens; ++position) {
    const StepToken token{.id = text.window(0, 0)[static_cast<std::size_t>(position)],
                          .sequence = 0,
                          .position = static_cast<std::int32_t>(position)};
    const std::span<const float> logits = engine.forward({&token, 1});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

// Could more positions still turn a verdict? Not where one metric alone already decides it.
bool is_undecided(const Metrics& metrics, const AccuracyGate& gate) {
  if (gate.is_open) return false;
  const bool surely_missed =
      metrics.at("kl_mean").low > gate.most_kl || metrics.at("top1_agreement").high < gate.least_agreement;
  return !surely_missed && judge(metrics, gate).straddles;
}

bool straddles_a_gate(const Metrics& metrics) {
  return std::ranges::any_of(accuracy_gates(),
                             [&](const AccuracyGate& gate) { return is_undecided(metrics, gate); });
}

// What generated weights say nothing about. output_snr_db and, where there are experts, router_mass stay.
void drop_unknown_accuracy(const ModelSpec& spec, Metrics& metrics) {
  for (const char* unknown : {"kl_mean", "kl_p99", "top1_agreement", "perplexity_ratio", "route_flip_rate"})
    metrics.erase(unknown);
  if (spec.moe_layer_count() == 0) metrics.erase("router_mass");
}

// Reference logits must fit into their store, whatever the vocabulary.
std::int64_t storable_positions(const ModelSpec& spec) {
  return ReferenceStore::capacity_bytes /
         (static_cast<std::int64_t>(sizeof(float)) *
          (spec.vocabulary + 2 * spec.moe_layer_count() * spec.experts_per_token));
}

// A GPU picks its kernels by the most tokens of a step, which is not the same for scoring and for the
// workload, so the roundings differ, and with them an expert here and there. What is measured is still the
// same model.
std::string different_logits(std::span<const float> logits, std::span<const float> probe,
                             std::size_t vocabulary) {
  const std::size_t tokens = std::min(logits.size(), probe.size()) / vocabulary;
  double kl = 0.0;
  for (std::size_t token = 0; token < tokens; ++token)
    kl += kl_divergence(probe.subspan(token * vocabulary, vocabulary),
                        logits.subspan(token * vocabulary, vocabulary));
  kl /= static_cast<double>(tokens);
  if (kl <= most_probe_kl) return {};
  return fmt::format(
      "not the logits that were scored: KL {:.3g} nats over {} tokens, where rounding explains {} at most",
      kl, tokens, most_probe_kl);
}

}  // namespace

std::int64_t base_positions(const ModelSpec& spec) {
  if (spec.is_synthetic) return synthetic_positions;
  return spec.name == "tiny-moe" ? 4096 : 2048;
}

ScoredText text_to_score(const ModelSpec& spec, const TokenSource& text) {
  const std::int64_t positions = std::min(extension * base_positions(spec), storable_positions(spec));
  return ScoredText::of(
      text, spec.is_synthetic ? std::min(spec.max_context, synthetic_context) : spec.max_context, positions);
}

int base_groups(const ScoredText& text, const ModelSpec& spec) {
  const std::int64_t wanted =
      (base_positions(spec) + text.positions_per_group() - 1) / text.positions_per_group();
  return static_cast<int>(std::min<std::int64_t>(wanted, text.groups()));
}

int extended_groups(const ScoredText& text, const ModelSpec& spec) {
  return std::min(extension * base_groups(text, spec), text.groups());
}

std::string output_key(const EngineOptions& options) {
  std::string key;
  for (const Knob& knob : knobs())
    if (knob.changes_output) key += fmt::format("{}={} ", knob.name, knob.get(options));
  return key;
}

bool couples_sequences(const EngineOptions& options) { return options.reroute_margin > 0.0; }

KnownOutput score_output(Engine& engine, Reference& reference, int most_groups,
                         const std::function<void(const std::string& words)>& progress) {
  const ModelSpec& spec = engine.spec();
  KnownOutput output;
  output.accuracy = measure_accuracy(
      engine, reference,
      {.base_groups = base_groups(reference.text(), spec),
       .most_groups = most_groups,
       .undecided = [&](const Metrics& metrics) { return !spec.is_synthetic && straddles_a_gate(metrics); },
       .on_progress = progress});
  if (spec.is_synthetic) drop_unknown_accuracy(spec, output.accuracy.metrics);
  output.probe = probe_logits(engine, reference.text());
  return output;
}

std::string probe_objection(Engine& engine, const KnownOutput& output, const ScoredText& text) {
  const auto vocabulary = static_cast<std::size_t>(engine.spec().vocabulary);
  const std::vector<float> logits = probe_logits(engine, text);
  const std::size_t common =
      std::min(logits.size(), output.probe.size());  // a short workload has a short context
  float largest = 0.0F;
  for (std::size_t i = 0; i < common; ++i) {
    if (std::isnan(logits[i])) return "logits that are not finite";
    largest = std::max(largest, std::abs(logits[i] - output.probe[i]));
  }
  if (largest == 0.0F) return {};
  if (engine.options().device == DeviceKind::cuda) return different_logits(logits, output.probe, vocabulary);
  return fmt::format(
      "not the logits that the same weights give with every expert resident: they differ by {:.3g} at most "
      "over {} tokens",
      largest, common / vocabulary);
}

}  // namespace moetune
