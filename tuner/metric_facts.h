// The metrics a target may report: which way is better, in what words. Objectives, recommendations and
// reports share it. Start at find_metric().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moetune {

enum class Direction : std::uint8_t { smaller_is_better, larger_is_better, neither };

struct MetricFacts {
  std::string_view name;
  Direction direction;
  std::string_view
      unit;  // after the number: "ms per token"; "bytes" and "share" are written as MiB and per cent
  std::string_view meaning;
  // Beyond it a point is worth nothing: the widest accuracy gate. Empty: no such limit.
  std::optional<double> limit;
  // Depends on when it was measured: what a final round measures again.
  bool is_timed = false;
};

std::span<const MetricFacts> known_metrics();
const MetricFacts* find_metric(std::string_view name);  // nullptr: not known
bool is_timed(std::string_view metric);                 // false also where it is not known

// "0.412 ms per token", "13.2 MiB", "97.1 %", "0.0081 nats"; a metric that is not
// known is written as "name 0.41".
std::string value_text(std::string_view metric, double value);
// The number alone, as value_text() rounds it.
std::string number_text(std::string_view metric, double value);
// Both ends of an interval so, with as many decimals where they differ by one: "0.990-1.010", not
// "0.990-1.01".
std::string interval_text(std::string_view metric, double low, double high, std::string_view to = "-");
// The same of numbers that are written already, as decimals.
std::string joined_ends(double low, std::string low_text, double high, std::string high_text,
                        std::string_view to);

}  // namespace moetune
