#include "tuner/compare/economics.h"

#include <cmath>

namespace moetune {

double usd_per_mtok(double usd_per_hour, double tokens_per_s) {
  const double tokens_per_hour = tokens_per_s * 3600.0;
  return usd_per_hour / tokens_per_hour * 1e6;
}

Owning owning(double buy_usd, double years, double watts, double idle_watts, double usd_per_kwh) {
  const double hours = years * 365.0 * 24.0;
  return {.capital = buy_usd / hours,
          .busy_power = watts / 1000.0 * usd_per_kwh,
          .idle_power = idle_watts / 1000.0 * usd_per_kwh};
}

std::optional<double> break_even_busy_share(const Owning& own, double rent_per_hour) {
  // capital + share x busy + (1 - share) x idle = share x rent
  const double saved_per_busy_hour = rent_per_hour - own.busy_power + own.idle_power;
  if (saved_per_busy_hour <= 0.0) return std::nullopt;
  return (own.capital + own.idle_power) / saved_per_busy_hour;
}

std::optional<double> break_even_load(const Rented& box, const Rented& cheap) {
  // A load of L needs ceil(L / cheap.tokens_per_s) cheap boxes; one more than the price of `box` pays for is
  // too many.
  const double load = std::floor(box.usd_per_hour / cheap.usd_per_hour) * cheap.tokens_per_s;
  if (load >= box.tokens_per_s) return std::nullopt;
  return load;
}

}  // namespace moetune
