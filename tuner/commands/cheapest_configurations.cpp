#include "tuner/commands/cheapest_configurations.h"

#include <algorithm>
#include <compare>
#include <utility>

#include "engine/facts/knobs.h"
#include "engine/option_rules.h"
#include "tuner/choose.h"
#include "tuner/commands/step_bytes.h"
#include "tuner/targets/engine_target.h"

namespace moetune {
namespace {

// In place of a box's own where it has not said them: those of an H200, rounded.
constexpr BoxRates usual_rates = {.memory_gb_per_s = 4000.0, .link_gb_per_s = 50.0};

struct Ranked {
  bool stays_unrecommended = false;
  bool misses_level = false;
  int changes_of_output = 0;
  double floor = 0.0;
  std::uint64_t rank = 0;
  auto operator<=>(const Ranked&) const = default;
};

int changes_of_output(const Configuration& configuration, const Configuration& default_configuration) {
  return static_cast<int>(std::ranges::count_if(configuration.values, [&](const auto& value) {
    const auto usual = default_configuration.values.find(value.first);
    return knob_named(value.first).changes_output && usual != default_configuration.values.end() &&
           usual->second != value.second;
  }));
}

double resident_share(const ModelSpec& model, const EngineOptions& options) {
  const double all = static_cast<double>(model.moe_layer_count()) * model.experts;
  return std::min(1.0, static_cast<double>(cache_slots(model, options)) / all);
}

}  // namespace

std::vector<Configuration> cheapest_configurations(const Study& study, const SearchSpace& space,
                                                   const LegalSet& legal,
                                                   const Configuration& default_configuration,
                                                   const AccuracyGate& gate, std::size_t most) {
  if (study.made_up) return {};
  BoxRates rates = {study.hardware.memory_gb_per_s, study.hardware.link_gb_per_s};
  if (rates.memory_gb_per_s <= 0.0) rates = usual_rates;
  const Slo& slo = study.workload.slo;
  const double limit_ms = slo.metric.starts_with("tpot") ? slo.limit_ms : 0.0;
  const bool must_keep_accuracy = study.model.is_synthetic && !gate.is_open;
  std::vector<Ranked> ranked;
  for (const std::uint64_t rank : legal.ranks) {
    const Configuration configuration = space.at(rank);
    const double share = resident_share(study.model, options_of(configuration, study.device, 0));
    Ranked& one = ranked.emplace_back();
    one.rank = rank;
    one.floor = floor_ms(step_bytes(study.model, configuration, study.workload, study.device, share), rates);
    one.misses_level = limit_ms > 0.0 && one.floor > limit_ms;
    one.changes_of_output = changes_of_output(configuration, default_configuration);
    one.stays_unrecommended = must_keep_accuracy && !keeps_accuracy(configuration, default_configuration);
  }
  const std::size_t count = std::min(most, ranked.size());
  std::ranges::partial_sort(ranked, ranked.begin() + static_cast<std::ptrdiff_t>(count));
  std::vector<Configuration> cheapest;
  for (std::size_t i = 0; i < count; ++i) cheapest.push_back(space.at(ranked[i].rank));
  return cheapest;
}

}  // namespace moetune
