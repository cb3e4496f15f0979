#include "tuner/rank_shift.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace moetune {
namespace {

// Up to here the distributions are counted out; beyond, the normal one is right to four digits.
constexpr std::size_t most_counted = 60;

// Standard normal quantile of 1 - doubt, by bisection of the error function: it is needed a few times per
// verdict.
double normal_bound(double doubt) {
  double low = 0.0;
  double high = 40.0;
  for (int i = 0; i < 200; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(middle / std::sqrt(2.0)) > doubt ? low : high) = middle;
  }
  return low;
}

// The largest c with P(statistic < c) <= doubt, from the probabilities of 0, 1, 2 ...
std::size_t largest_below(const std::vector<double>& probabilities, double doubt) {
  double sum = 0.0;
  std::size_t c = 0;
  while (c < probabilities.size() && sum + probabilities[c] <= doubt) sum += probabilities[c++];
  return c;
}

// The same for a statistic that is nearly normal, half a step kept away from the bound.
std::size_t largest_below(double mean, double deviation, double doubt) {
  const double c = mean - normal_bound(doubt) * deviation - 0.5;
  return c < 0.0 ? 0 : static_cast<std::size_t>(c) + 1;
}

void insist_on_finite(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("no samples");
  if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); }))
    throw std::invalid_argument("a sample that is not finite");
}

// How far beyond all differences their middle may lie where neighbours are so alike that they are worth fewer
// samples than ranks need. With 1 it holds the truth in 98 of 100 made-up series or more as long as
// neighbours are correlated by up to 0.95 (tests/tuner/rank_shift_test.cpp). Without it a machine that kept
// one pace through one night, and another one through the next, would be a change beyond doubt.
constexpr double reach_beyond = 1.0;
constexpr double fewest_independent = 2.0;  // one alone does not show how far two of them differ

// free: to spare of `all` where samples are independent. Samples that resemble their neighbours spread the
// rank sum as that many fewer of them would.
std::size_t spared_of_correlated(std::size_t free, std::size_t all, double correlation_time) {
  if (free == 0) return 0;
  const double middle = 0.5 * static_cast<double>(all);
  const double spared =
      std::floor(middle - (middle - static_cast<double>(free)) * std::sqrt(std::max(1.0, correlation_time)));
  return spared < 1.0 ? 0 : static_cast<std::size_t>(spared);
}

// values: all means of two, or all differences. samples: of one series.
RankEstimate estimate(std::vector<double> values, std::size_t free, double samples, double correlation_time) {
  std::ranges::sort(values);
  RankEstimate result{.value = median(values), .interval = {}};
  if (free == 0 || 2 * free > values.size()) return result;
  if (const std::size_t spared = spared_of_correlated(free, values.size(), correlation_time); spared > 0) {
    result.interval = Interval{values[spared - 1], values[values.size() - spared]};
  } else if (samples / correlation_time > fewest_independent - 1e-9) {
    const double reach = reach_beyond * (values.back() - values.front());
    result.interval = Interval{values.front() - reach, values.back() + reach};
    result.is_beyond_ranks = true;
  }
  return result;
}

}  // namespace

std::size_t signed_ranks_to_spare(std::size_t count, double doubt) {
  const auto n = static_cast<double>(count);
  if (count > most_counted)
    return largest_below(n * (n + 1.0) / 4.0, std::sqrt(n * (n + 1.0) * (2.0 * n + 1.0) / 24.0), doubt);
  std::vector<double> probabilities(count * (count + 1) / 2 + 1);
  probabilities[0] = 1.0;
  for (std::size_t rank = 1; rank <= count; ++rank)  // each rank counts or does not, like a coin
    for (std::size_t sum = probabilities.size(); sum-- > 0;)
      probabilities[sum] = 0.5 * (probabilities[sum] + (sum >= rank ? probabilities[sum - rank] : 0.0));
  return largest_below(probabilities, doubt);
}

std::size_t pairs_to_spare(std::size_t before, std::size_t now, double doubt) {
  const auto m = static_cast<double>(before);
  const auto n = static_cast<double>(now);
  if (std::max(before, now) > most_counted)
    return largest_below(m * n / 2.0, std::sqrt(m * n * (m + n + 1.0) / 12.0), doubt);
  // ways[j][u]: of all orders of i from `before` and j from `now` the share with u pairs in which `now` is
  // smaller. The last in order is one of `before` with probability i / (i + j) and then follows all j of the
  // others.
  std::vector<std::vector<double>> ways(now + 1, std::vector<double>(before * now + 1));
  for (auto& row : ways) row[0] = 1.0;
  for (std::size_t i = 1; i <= before; ++i)
    for (std::size_t j = 1; j <= now; ++j) {
      const double share = static_cast<double>(i) / static_cast<double>(i + j);
      for (std::size_t u = before * now + 1; u-- > 0;)
        ways[j][u] = (u >= j ? share * ways[j][u - j] : 0.0) + (1.0 - share) * ways[j - 1][u];
    }
  return largest_below(ways[now], doubt);
}

RankEstimate middle_of_differences(std::span<const double> differences, double confidence,
                                   double correlation_time) {
  insist_on_finite(differences);
  std::vector<double> means;
  means.reserve(differences.size() * (differences.size() + 1) / 2);
  for (std::size_t i = 0; i < differences.size(); ++i)
    for (std::size_t j = i; j < differences.size(); ++j)
      means.push_back(0.5 * (differences[i] + differences[j]));
  const std::size_t free = signed_ranks_to_spare(differences.size(), (1.0 - confidence) / 2.0);
  return estimate(std::move(means), free, static_cast<double>(differences.size()), correlation_time);
}

RankEstimate shift_between(std::span<const double> before, std::span<const double> now, double confidence,
                           double correlation_time) {
  insist_on_finite(before);
  insist_on_finite(now);
  std::vector<double> differences;
  differences.reserve(before.size() * now.size());
  for (const double a : before)
    for (const double b : now) differences.push_back(b - a);
  const std::size_t free = pairs_to_spare(before.size(), now.size(), (1.0 - confidence) / 2.0);
  const double samples = 0.5 * static_cast<double>(before.size() + now.size());
  return estimate(std::move(differences), free, samples, correlation_time);
}

}  // namespace moetune
