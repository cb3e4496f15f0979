#include "tuner/pareto.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace moetune {

bool dominates(std::span<const double> a, std::span<const double> b) {
  bool better = false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] <= b[i])) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

std::vector<std::size_t> non_dominated(std::span<const std::vector<double>> points) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (std::none_of(points.begin(), points.end(),
                     [&](const auto& other) { return dominates(other, points[i]); }))
      front.push_back(i);
  return front;
}

std::vector<int> non_domination_ranks(std::span<const std::vector<double>> points) {
  const std::size_t count = points.size();
  std::vector<int> dominators(count, 0);
  std::vector<std::vector<std::size_t>> dominated(count);
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j)
      if (dominates(points[i], points[j])) {
        dominated[i].push_back(j);
        ++dominators[j];
      }
  std::vector<int> ranks(count, -1);
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < count; ++i)
    if (dominators[i] == 0) front.push_back(i);
  for (int rank = 0; !front.empty(); ++rank) {
    std::vector<std::size_t> next;
    for (const std::size_t i : front) {
      ranks[i] = rank;
      for (const std::size_t j : dominated[i])
        if (--dominators[j] == 0) next.push_back(j);
    }
    front = std::move(next);
  }
  return ranks;
}

std::vector<double> crowding_distances(std::span<const std::vector<double>> points,
                                       std::span<const std::size_t> chosen) {
  std::vector<double> distances(chosen.size(), 0.0);
  if (chosen.empty()) return distances;
  std::vector<std::size_t> order(chosen.size());
  for (std::size_t objective = 0; objective < points[chosen[0]].size(); ++objective) {
    const auto value = [&](std::size_t i) { return points[chosen[i]][objective]; };
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return value(a) < value(b); });
    const double range = value(order.back()) - value(order.front());
    if (!(range > 0.0)) continue;  // equal in this objective: nobody is lonelier for it
    distances[order.front()] = distances[order.back()] = std::numeric_limits<double>::infinity();
    for (std::size_t i = 1; i + 1 < order.size(); ++i)
      distances[order[i]] += (value(order[i + 1]) - value(order[i - 1])) / range;
  }
  return distances;
}

std::vector<const Trial*> latest_ok_trials(std::span<const Trial> trials) {
  std::map<Configuration, const Trial*> latest;
  for (const Trial& trial : trials)
    if (trial.outcome == Outcome::ok) latest[trial.configuration] = &trial;
  std::vector<const Trial*> found;
  for (const auto& [configuration, trial] : latest) found.push_back(trial);
  std::sort(found.begin(), found.end());  // of one array: the order of the log
  return found;
}

ParetoFront pareto_front(std::span<const Trial> trials, std::span<const Objective> objectives) {
  std::vector<const Trial*> candidates;
  std::vector<std::vector<double>> points;
  for (const Trial* trial : latest_ok_trials(trials))
    if (auto values = values_of(*trial, objectives)) {
      candidates.push_back(trial);
      points.push_back(std::move(*values));
    }
  std::vector<std::size_t> chosen = non_dominated(points);
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
    return points[a][0] != points[b][0] ? points[a][0] < points[b][0]
                                        : candidates[a]->number < candidates[b]->number;
  });
  ParetoFront front{{objectives.begin(), objectives.end()}, {}};
  for (const std::size_t i : chosen) front.trials.push_back(*candidates[i]);
  return front;
}

}  // namespace moetune
