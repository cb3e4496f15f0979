#include "tuner/autocorrelation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tuner/statistics.h"

namespace moetune {
namespace {

// A correlation that lasts longer than a few hundred samples is a drift, which no number of samples averages
// away.
constexpr std::size_t longest_lag = 512;

std::vector<double> sides_of_median(std::span<const double> values) {
  const double middle = median(values);
  std::vector<double> sides;
  for (const double value : values) sides.push_back(value > middle ? 1.0 : value < middle ? -1.0 : 0.0);
  return sides;
}

// -1 + 2 x the sum over pairs of lags, as long as they are positive; a pair counts no more than the one
// before it. shortfall: added to every lag beyond 0.
double summed(const std::vector<double>& lags, double shortfall) {
  double sum = -1.0;
  double last = 2.0;
  for (std::size_t lag = 0; lag + 1 < lags.size(); lag += 2) {
    const double pair = lags[lag] + lags[lag + 1] + (lag == 0 ? 1.0 : 2.0) * shortfall;
    if (pair <= 0.0) break;
    last = std::min(last, pair);
    sum += 2.0 * last;
  }
  return sum;
}

}  // namespace

std::vector<double> autocorrelations(std::span<const double> values, std::size_t most_lag) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  std::vector<double> centred(values.begin(), values.end());
  for (double& value : centred) value -= mean;
  const double variance = std::inner_product(centred.begin(), centred.end(), centred.begin(), 0.0);
  std::vector<double> lags(std::min(most_lag, values.size() - 1) + 1, 0.0);
  lags[0] = 1.0;
  if (variance == 0.0) return lags;
  for (std::size_t lag = 1; lag < lags.size(); ++lag)
    lags[lag] = std::inner_product(centred.begin() + static_cast<std::ptrdiff_t>(lag), centred.end(),
                                   centred.begin(), 0.0) /
                variance;
  return lags;
}

double correlation_time(std::span<const double> values, double noise_allowed) {
  const std::size_t count = values.size();
  if (count < fewest_for_correlation) return 1.0;
  const auto n = static_cast<double>(count);
  const std::vector<double> sides = sides_of_median(values);
  if (std::ranges::all_of(sides, [](double side) { return side == 0.0; })) return 1.0;  // nothing varies
  const std::vector<double> lags = autocorrelations(sides, std::min(count / 2, longest_lag));
  if (lags[1] + 1.0 / n < noise_allowed / std::sqrt(n)) return 1.0;
  // Taken around a mean of their own, lags come out about time / n too small; a few rounds settle the time.
  double time = 1.0;
  for (int round = 0; round < 5; ++round) time = std::clamp(summed(lags, time / n), 1.0, n / 2.0);
  return time;
}

}  // namespace moetune
