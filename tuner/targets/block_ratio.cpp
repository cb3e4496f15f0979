#include "tuner/targets/block_ratio.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "tuner/student_t.h"

namespace moetune {

RatioInterval block_ratio(std::span<const double> numerators, std::span<const double> denominators,
                          std::int64_t block) {
  assert(numerators.size() == denominators.size() && !numerators.empty() && block >= 1);
  struct Sums {
    double numerator = 0.0;
    double denominator = 0.0;
  };
  std::vector<Sums> blocks((numerators.size() + static_cast<std::size_t>(block) - 1) /
                           static_cast<std::size_t>(block));
  Sums total;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    Sums& sums = blocks[i / static_cast<std::size_t>(block)];
    sums.numerator += numerators[i];
    sums.denominator += denominators[i];
    total.numerator += numerators[i];
    total.denominator += denominators[i];
  }
  const double ratio = total.numerator / total.denominator;
  const auto count = static_cast<double>(blocks.size());
  if (blocks.size() < 2)
    return {ratio, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  double squares = 0.0;
  for (const Sums& sums : blocks) squares += std::pow(sums.numerator - ratio * sums.denominator, 2);
  const double error = std::sqrt(squares * count / (count - 1.0)) / std::abs(total.denominator);
  const double reach = student_t_975(std::ssize(blocks) - 1) * error;
  return {ratio, ratio - reach, ratio + reach};
}

RatioInterval block_mean(std::span<const double> values, std::int64_t block) {
  const std::vector<double> ones(values.size(), 1.0);
  return block_ratio(values, ones, block);
}

}  // namespace moetune
