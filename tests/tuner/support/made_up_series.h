// Series with a known correlation between neighbours, for tests of statistics: seeded, the same on every
// machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tuner/counter_rng.h"

namespace moetune {

inline double made_up_normal(RngSequence& random) {
  const double radius = std::sqrt(-2.0 * std::log1p(-random.uniform()));
  return radius * std::cos(6.283185307179586 * random.uniform());
}

// Standard normal values of which each is `correlation` of the one before and the rest its own.
inline std::vector<double> made_up_series(std::uint32_t number, int count, double correlation) {
  RngSequence random(CounterRng(2026, RngStage::bootstrap, number));
  std::vector<double> series;
  double value = made_up_normal(random);
  for (int i = 0; i < count; ++i) {
    series.push_back(value);
    value = correlation * value + std::sqrt(1.0 - correlation * correlation) * made_up_normal(random);
  }
  return series;
}

}  // namespace moetune
