// Which configurations are worth keeping when there are several objectives.
// Start at pareto_front(); dominates() holds the whole definition.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tuner/objective.h"
#include "tuner/trial.h"

namespace moetune {

// True when a is no worse in every objective and better in one. Smaller is better.
bool dominates(std::span<const double> a, std::span<const double> b);

// Indices of the points that no other point dominates, ascending. Equal points do not
// dominate each other: all stay.
std::vector<std::size_t> non_dominated(std::span<const std::vector<double>> points);

// Rank of each point: 0 on the front, 1 on the front without those, and so on (Deb et al. 2002).
std::vector<int> non_domination_ranks(std::span<const std::vector<double>> points);

// How lonely each of the chosen points is among them: sum over objectives of the gap between its neighbours,
// as a share of the range; infinite at the ends (Deb et al. 2002). One value per entry of `chosen`.
std::vector<double> crowding_distances(std::span<const std::vector<double>> points,
                                       std::span<const std::size_t> chosen);

struct ParetoFront {
  std::vector<Objective> objectives;
  std::vector<Trial> trials;  // by the first objective, then by number
};

// Of the trials that have all objectives; of several trials of one configuration the last counts.
ParetoFront pareto_front(std::span<const Trial> trials, std::span<const Objective> objectives);

// The last ok trial of each configuration, in the order of the log: a re-measured
// finalist replaces its first try.
std::vector<const Trial*> latest_ok_trials(std::span<const Trial> trials);

}  // namespace moetune
