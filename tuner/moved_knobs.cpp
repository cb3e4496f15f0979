#include "tuner/moved_knobs.h"

#include <algorithm>
#include <iterator>
#include <set>

#include <fmt/format.h>

namespace moetune {
namespace {

std::set<std::string> differing_knobs(const Configuration& a, const Configuration& b) {
  std::set<std::string> names;
  for (const auto& [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
    for (const auto& [name, value] : one->values) {
      const auto found = other->values.find(name);
      if (found == other->values.end() || found->second != value) names.insert(name);
    }
  return names;
}

// b over a within each pass: what both met in that pass divides out.
std::vector<double> ratios_of(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (std::size_t pass = 0; pass < std::min(a.size(), b.size()); ++pass) ratios.push_back(b[pass] / a[pass]);
  return ratios;
}

// How the ratio of two configurations changed; empty: one has too few rounds.
std::optional<Slowdown> change_between(const NightlyPoint& a, const NightlyPoint& b) {
  if (!a.slowdown || !b.slowdown) return std::nullopt;
  const Slowdown change =
      slowdown_since(ratios_of(a.rounds_then, b.rounds_then), ratios_of(a.rounds_now, b.rounds_now));
  if (!change.interval) return std::nullopt;
  return change;
}

}  // namespace

MovedKnobs moved_knobs(const std::vector<NightlyPoint>& points, const Objective& objective,
                       double threshold) {
  std::set<std::string> suspects;
  std::set<std::string> cleared;
  MovedKnobs moved;
  for (std::size_t i = 0; i < points.size(); ++i)
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const std::set<std::string> knobs = differing_knobs(points[i].configuration, points[j].configuration);
      const std::optional<Slowdown> change = change_between(points[i], points[j]);
      if (!change) continue;
      ++moved.pairs_compared;
      if (change->interval->low > threshold / 2 || change->interval->high < -threshold / 2) {
        suspects.insert(knobs.begin(), knobs.end());
        moved.reasons.push_back(fmt::format(
            "{} of the {} over the {}'s changed by {:.1f} % (95 % interval {:.1f} % to {:.1f} %)",
            objective.metric, name_of(points[j].role), name_of(points[i].role), 100.0 * change->value,
            100.0 * change->interval->low, 100.0 * change->interval->high));
      } else if (knobs.size() == 1 && change->interval->low > -threshold &&
                 change->interval->high < threshold) {
        cleared.insert(*knobs.begin());
      }
    }
  const auto standard = std::ranges::find(points, NightlyRole::standard, &NightlyPoint::role);
  for (const NightlyPoint& point : points) {
    if (point.failure.empty() || standard == points.end() || !standard->failure.empty()) continue;
    const std::set<std::string> knobs = differing_knobs(point.configuration, standard->configuration);
    suspects.insert(knobs.begin(), knobs.end());
    moved.reasons.push_back(fmt::format("the {} fails now: {}", name_of(point.role), point.failure));
  }
  std::ranges::set_difference(suspects, cleared, std::back_inserter(moved.names));
  return moved;
}

}  // namespace moetune
