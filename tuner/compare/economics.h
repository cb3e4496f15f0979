// What serving costs: renting, owning, and from which load on one beats the other. Plain formulas; each says
// its own definition, and tests/flows/compare.sh recomputes them from trial logs. Start at usd_per_mtok().
#pragma once

#include <optional>

namespace moetune {

// US dollars for a million output tokens on a box that costs so much an hour and is never idle.
double usd_per_mtok(double usd_per_hour, double tokens_per_s);

// A box that is bought: its price spread evenly over all hours of its years, and power from the wall. US
// dollars an hour.
struct Owning {
  double capital = 0.0;
  double busy_power = 0.0;
  double idle_power = 0.0;  // 0 where idle power is not known

  double busy() const { return capital + busy_power; }
};
// buy_usd over years; watts while it serves, idle_watts otherwise.
Owning owning(double buy_usd, double years, double watts, double idle_watts, double usd_per_kwh);

// Share of all hours a box has to be busy for owning to cost the same as renting one like it for just those
// hours. Above 1: renting is cheaper at any load. Empty: so is it, because the rent does not even cover the
// power.
std::optional<double> break_even_busy_share(const Owning& own, double rent_per_hour);

struct Rented {
  double usd_per_hour = 0.0;
  double tokens_per_s = 0.0;  // that one box serves
};
// Both rented around the clock: the load in tokens/s above which one `box` costs less than as many `cheap`
// ones as that load needs. Empty: never, within what one box serves.
std::optional<double> break_even_load(const Rented& box, const Rented& cheap);

}  // namespace moetune
