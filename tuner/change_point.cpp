#include "tuner/change_point.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace moetune {
namespace {

// 1 is the smallest; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t index) { return values[index]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = 1.0 + 0.5 * static_cast<double>(first + last);
    first = last + 1;
  }
  return ranks;
}

}  // namespace

std::optional<std::size_t> change_point(std::span<const double> values, double doubt) {
  const auto n = static_cast<double>(values.size());
  const std::vector<double> ranks = ranks_of(values);
  double sum = 0.0;
  double largest = 0.0;
  std::size_t split = 0;
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    sum += 2.0 * ranks[i] - (n + 1.0);  // by how much the first i + 1 outrank the rest
    if (std::abs(sum) <= largest) continue;
    largest = std::abs(sum);
    split = i + 1;
  }
  if (split == 0) return std::nullopt;
  const double probability = 2.0 * std::exp(-6.0 * largest * largest / (n * n * (n + 1.0)));
  return probability <= doubt ? std::optional(split) : std::nullopt;
}

}  // namespace moetune
