#include "tuner/objective.h"

#include <cmath>

#include "engine/facts/error.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {
const char* const place = "--objective";

std::string accepted_metrics() {
  std::string names;
  for (const MetricFacts& facts : known_metrics()) {
    if (facts.direction != Direction::neither) names.append(names.empty() ? "" : ", ").append(facts.name);
  }
  return names;
}

Objective objective_named(const std::string& name) {
  const MetricFacts* facts = find_metric(name);
  if (facts == nullptr || facts->direction == Direction::neither)
    throw InputError(place, name.empty() ? "an empty name" : "no objective named '" + name + "'",
                     accepted_metrics());
  return {name, facts->direction == Direction::larger_is_better, facts->limit};
}
}  // namespace

std::vector<Objective> objectives_named(const std::string& comma_separated) {
  std::vector<Objective> objectives;
  std::size_t start = 0;
  for (bool last = false; !last;) {
    const std::size_t comma = comma_separated.find(',', start);
    last = comma == std::string::npos;
    const std::string name = comma_separated.substr(start, last ? comma : comma - start);
    for (const Objective& earlier : objectives)
      if (earlier.metric == name)
        throw InputError(place, "'" + name + "' is there twice", "every metric once");
    objectives.push_back(objective_named(name));
    start = comma + 1;
  }
  if (objectives.size() > most_objectives)
    throw InputError(place, std::to_string(objectives.size()) + " metrics",
                     "1 to " + std::to_string(most_objectives));
  return objectives;
}

std::optional<std::vector<double>> values_of(const Trial& trial, std::span<const Objective> objectives) {
  if (trial.outcome != Outcome::ok) return std::nullopt;
  std::vector<double> values;
  values.reserve(objectives.size());
  for (const Objective& objective : objectives) {
    const auto found = trial.metrics.find(objective.metric);
    if (found == trial.metrics.end() || !std::isfinite(found->second.value)) return std::nullopt;
    values.push_back(turned(objective, found->second.value));
  }
  return values;
}

}  // namespace moetune
