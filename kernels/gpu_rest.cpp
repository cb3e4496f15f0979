#include "kernels/gpu_rest.h"

#include <algorithm>
#include <cmath>

namespace moetune {
namespace {

constexpr double noise = 0.02;  // of a reading
constexpr int calm_readings = 3;

bool has_low_clock(const CardReading& reading) {
  return !reading.sm_mhz || !reading.most_sm_mhz || 2 * *reading.sm_mhz <= *reading.most_sm_mhz;
}

// One card: told its readings, knows when it is at rest.
class RestWatch {
 public:
  void add(const CardReading& reading) {
    const bool is_calm =
        last_.watts && reading.watts && std::abs(*reading.watts - *last_.watts) <= noise * *last_.watts;
    calm_ = is_calm && has_low_clock(reading) ? calm_ + 1 : 0;
    last_ = reading;
  }
  // Nothing more is to be found out.
  bool is_done() const { return !last_.watts || calm_ >= calm_readings; }
  RestingPower found() const {
    if (!last_.watts) return {.watts = {}, .problem = "the driver does not say what the card draws"};
    if (calm_ >= calm_readings) return {.watts = last_.watts, .problem = ""};
    const std::string now = std::to_string(std::lround(*last_.watts)) + " W";
    if (!has_low_clock(last_))
      return {.watts = {},
              .problem = "the card does not come to rest: it still clocks at " +
                         std::to_string(*last_.sm_mhz) + " of " + std::to_string(*last_.most_sm_mhz) +
                         " MHz and draws " + now};
    return {.watts = {}, .problem = "the card does not come to rest: its power still changes, now " + now};
  }

 private:
  CardReading last_;
  int calm_ = 0;
};

}  // namespace

std::vector<RestingPower> power_at_rest(std::span<const std::function<CardReading()>> cards,
                                        const std::function<void(std::chrono::milliseconds)>& wait,
                                        std::chrono::milliseconds step, std::chrono::milliseconds patience) {
  std::vector<RestWatch> watches(cards.size());
  const auto look = [&] {
    for (std::size_t i = 0; i < cards.size(); ++i) watches[i].add(cards[i]());
  };
  look();
  for (auto waited = step; waited <= patience && !std::ranges::all_of(watches, &RestWatch::is_done);
       waited += step) {
    wait(step);
    look();
  }
  std::vector<RestingPower> found;
  for (const RestWatch& watch : watches) found.push_back(watch.found());
  return found;
}

}  // namespace moetune
