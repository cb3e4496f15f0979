// How NSGA-II makes a child of two parents, on level indices. The child need not be legal.
#pragma once

#include "tuner/counter_rng.h"
#include "tuner/search_space.h"

namespace moetune {

// Each parameter comes from one of the parents; an ordinal one may also lie anywhere between
// them. Then each is changed with probability 1 / parameters: an ordinal one mostly by a step,
// any other one to a value drawn afresh.
Levels child_of(const SearchSpace& space, const Levels& mother, const Levels& father, RngSequence& random);

}  // namespace moetune
