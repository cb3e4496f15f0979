#include "tuner/possible_values.h"

#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "engine/facts/knobs.h"
#include "tuner/metric_facts.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

// Bounds and values are rounded apart from each other, and sums of shares round too.
constexpr double rounding = 1e-6;

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool has(double value) const { return value >= low - rounding && value <= high + rounding; }
  std::string text() const {
    return high < 2.0 ? fmt::format("{:g} to {:g}", low, high) : fmt::format("{:g} or more", low);
  }
};

// Parts of a token's time come from other runs than the whole: their share of it may pass one, and what they
// leave unexplained may lie below zero. A ratio of signals has either sign.
Range range_of(const MetricFacts& facts) {
  if (facts.name == "tax_unexplained_ms" || facts.unit == "dB") return {};
  if (facts.unit == "share" && facts.name != "tax_share") return {0.0, 1.0};
  return {.low = 0.0};
}

void check(const std::string& metric, const Measurement& measurement, const std::string& place) {
  const MetricFacts* const facts = find_metric(metric);
  if (facts == nullptr) return;
  const Range range = range_of(*facts);
  const auto insist = [&](std::string_view field, double value) {
    if (!range.has(value))
      refuse(fmt::format("{}.{}", place, field), fmt::format("{:g}", value), range.text());
  };
  insist("value", measurement.value);
  if (measurement.p99) insist("p99", *measurement.p99);
  if (!measurement.low || !measurement.high) return;
  insist("low", *measurement.low);
  insist("high", *measurement.high);
  const double slack = rounding * (std::abs(measurement.value) + 1e-12);
  if (measurement.value < *measurement.low - slack || measurement.value > *measurement.high + slack)
    refuse(place + ".value", fmt::format("{:g}", measurement.value),
           fmt::format("a value within its own interval, {:g} to {:g}", *measurement.low, *measurement.high));
}

}  // namespace

void check_possible(const Metrics& metrics, const std::string& where) {
  for (const auto& [name, measurement] : metrics) check(name, measurement, where + "." + name);
}

void check_knob_values(const std::map<std::string, std::string>& values, const std::string& where) {
  EngineOptions ignored;
  for (const auto& [name, value] : values)
    attempt([&] {
      try {
        set_knob(ignored, name, value);
      } catch (const InputError& error) {
        refuse(where + "." + name, error.what(), "");
      }
    });
}

}  // namespace moetune
