// Random numbers without state: a number is a function of (seed, stage, iteration, index) and
// nothing else, so a resumed run draws what the killed one drew, on every machine. Philox4x32-10
// (Salmon et al., SC'11). Start at bits().
#pragma once

#include <cstdint>

namespace moetune {

// Who draws. Numbers are part of every recorded run: never renumber, only add.
enum class RngStage : std::uint32_t {
  space_sample = 1,
  random_order = 2,
  sobol_scramble = 3,
  nsga2_selection = 4,
  nsga2_variation = 5,
  nsga2_refill = 6,
  trial_seed = 7,
  bootstrap = 8,
  final_round_seed = 9,
  synthetic_mood = 10,
  arrivals = 11,
};

class CounterRng {
 public:
  CounterRng(std::uint64_t seed, RngStage stage, std::uint32_t iteration = 0)
      : seed_(seed), stage_(stage), iteration_(iteration) {}

  std::uint64_t bits(std::uint64_t index) const;  // 64 uniform bits
  double uniform(std::uint64_t index) const;      // [0, 1), multiples of 2^-53
  // [0, bound), bound > 0. The bias is below bound / 2^64: nothing here draws enough to see it.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

 private:
  std::uint64_t seed_;
  RngStage stage_;
  std::uint32_t iteration_;
};

// A generator and its next index, for code that draws an unknown number of times in one (stage, iteration).
class RngSequence {
 public:
  explicit RngSequence(const CounterRng& rng) : rng_(rng) {}
  std::uint64_t bits() { return rng_.bits(next_++); }
  double uniform() { return rng_.uniform(next_++); }
  std::uint64_t below(std::uint64_t bound) { return rng_.below(bound, next_++); }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

}  // namespace moetune
