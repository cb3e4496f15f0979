#include "tuner/hypervolume.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tuner/pareto.h"

namespace moetune {
namespace {
using Points = std::vector<std::vector<double>>;

Points without_dominated(const Points& points) {
  Points front;
  for (const std::size_t i : non_dominated(points)) front.push_back(points[i]);
  // Equal points dominate the same volume: one of them is enough.
  std::sort(front.begin(), front.end());
  front.erase(std::unique(front.begin(), front.end()), front.end());
  return front;
}

// Staircase below the reference; points are non-dominated and sorted by the first
// objective, so the second one falls.
double area(const Points& points, std::span<const double> reference) {
  double sum = 0.0;
  double upper = reference[1];
  for (const auto& point : points) {
    sum += (reference[0] - point[0]) * (upper - point[1]);
    upper = point[1];
  }
  return sum;
}

// Every point is better than the reference in all objectives.
double volume(Points points, std::span<const double> reference) {
  points = without_dominated(points);
  if (points.empty()) return 0.0;
  const std::size_t last = reference.size() - 1;
  if (last == 0) return reference[0] - points.front()[0];
  if (last == 1) return area(points, reference);

  // Between two neighbouring values of the last objective, the points up to there dominate
  // one and the same cross section.
  std::sort(points.begin(), points.end(), [&](const auto& a, const auto& b) { return a[last] < b[last]; });
  double sum = 0.0;
  Points below;
  for (std::size_t i = 0; i < points.size(); ++i) {
    below.emplace_back(points[i].begin(), points[i].end() - 1);
    const double end = i + 1 < points.size() ? points[i + 1][last] : reference[last];
    if (end > points[i][last]) sum += (end - points[i][last]) * volume(below, reference.first(last));
  }
  return sum;
}
}  // namespace

double hypervolume(std::span<const std::vector<double>> points, std::span<const double> reference) {
  if (reference.empty() || reference.size() > most_objectives)
    throw std::invalid_argument("hypervolume of " + std::to_string(reference.size()) +
                                " objectives: 1 to 4 are possible");
  Points inside;
  for (const auto& point : points) {
    if (point.size() != reference.size())
      throw std::invalid_argument("hypervolume: point and reference differ in length");
    bool better = true;
    for (std::size_t i = 0; i < point.size(); ++i) better = better && point[i] < reference[i];
    if (better) inside.push_back(point);
  }
  return volume(std::move(inside), reference);
}

std::vector<double> reference_point(std::span<const Objective> objectives, std::span<const Trial> trials) {
  for (const Trial& trial : trials) {
    const auto values = values_of(trial, objectives);
    if (!values) continue;
    std::vector<double> reference;
    for (std::size_t i = 0; i < objectives.size(); ++i) {
      const double value = (*values)[i];
      if (objectives[i].limit) {
        reference.push_back(turned(objectives[i], *objectives[i].limit));
      } else {
        reference.push_back(value > 0.0 ? 2.0 * value : value < 0.0 ? 0.5 * value : 1.0);
      }
    }
    return reference;
  }
  return {};
}

std::vector<double> hypervolume_history(std::span<const Objective> objectives,
                                        std::span<const Trial> trials) {
  const std::vector<double> reference = reference_point(objectives, trials);
  if (reference.empty()) return {};
  std::vector<double> best = reference;
  for (const Trial& trial : trials)
    if (const auto values = values_of(trial, objectives))
      for (std::size_t i = 0; i < best.size(); ++i) best[i] = std::min(best[i], (*values)[i]);
  double most = 1.0;
  for (std::size_t i = 0; i < best.size(); ++i) most *= reference[i] - best[i];

  std::vector<double> history;
  Points front;
  double share = 0.0;
  for (const Trial& trial : trials) {
    const auto values = values_of(trial, objectives);
    const bool adds =
        values && std::none_of(front.begin(), front.end(), [&](const std::vector<double>& point) {
          return point == *values || dominates(point, *values);
        });
    if (adds) {
      std::erase_if(front, [&](const std::vector<double>& point) { return dominates(*values, point); });
      front.push_back(*values);
      share = most > 0.0 ? hypervolume(front, reference) / most : 0.0;
    }
    history.push_back(share);
  }
  return history;
}

}  // namespace moetune
