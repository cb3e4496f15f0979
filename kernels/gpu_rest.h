// What cards draw when nothing runs on them. Just after work a card still draws more: its clocks stay up for
// a while, and the driver averages the power over the last second. So cards are watched until they have come
// to rest. Start at power_at_rest().
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moetune {

// One look at a card; what the driver does not say is empty.
struct CardReading {
  std::optional<double> watts;
  std::optional<int> sm_mhz;  // clock of the multiprocessors
  std::optional<int> most_sm_mhz;
};

struct RestingPower {
  std::optional<double> watts;
  std::string problem;  // why it is not known; empty: it is
};

// Looks at all cards every `step` until each has come to rest: its clock is no higher than half of the
// highest one (where the driver says so), and three readings of its power in a row are within 2 % of the one
// before. A card that has not after `patience`, counted in steps, has no value. wait: sleeps; tests count.
std::vector<RestingPower> power_at_rest(std::span<const std::function<CardReading()>> cards,
                                        const std::function<void(std::chrono::milliseconds)>& wait,
                                        std::chrono::milliseconds step, std::chrono::milliseconds patience);

}  // namespace moetune
