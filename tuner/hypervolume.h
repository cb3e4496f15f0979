// How good a front is in one number: the volume it dominates up to a reference point. Exact, up to four
// objectives. Start at hypervolume(); reference_point() says where volume ends.
#pragma once

#include <span>
#include <vector>

#include "tuner/objective.h"
#include "tuner/trial.h"

namespace moetune {

// Volume of the points x with p <= x <= reference for some p of `points`; smaller is better. Points that are
// not better than the reference in every objective add nothing. 1 to 4 objectives; throws
// std::invalid_argument otherwise. Slices along the last objective (While et al. 2006): fast enough for
// fronts of a few hundred points.
double hypervolume(std::span<const std::vector<double>> points, std::span<const double> reference);

// The reference point, one value per objective, to be minimised like values_of(). It is fixed before a search
// has found anything, so that a better front never moves it:
//   1. an objective's own limit (an accuracy gate, a service level);
//   2. otherwise twice the default configuration's value, or half of it where more is better;
//   3. otherwise, where that value is 0, one unit.
// The default configuration is the first trial; when it failed, the first trial that has the objectives
// stands in. Empty when no trial has.
std::vector<double> reference_point(std::span<const Objective> objectives, std::span<const Trial> trials);

// How the front grew: its hypervolume after each trial, as a share of the volume between the reference point
// and the best value of each objective that any of the trials has. One number per trial; empty when none has
// the objectives.
std::vector<double> hypervolume_history(std::span<const Objective> objectives, std::span<const Trial> trials);

}  // namespace moetune
