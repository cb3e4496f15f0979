#include "tuner/commands/quantities.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "engine/facts/error.h"

namespace moetune {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array durations = {Unit{"s", 1.0}, Unit{"m", 60.0}, Unit{"h", 3600.0}};
constexpr std::array response_times = {Unit{"ms", 1.0}, Unit{"s", 1000.0}};
constexpr std::array plain = {Unit{"", 1.0}};
constexpr std::array shares = {Unit{"%", 0.01}, Unit{" %", 0.01}};
constexpr std::array sizes = {
    Unit{"", 1.0},    Unit{"B", 1.0},      Unit{"KB", 1e3},        Unit{"MB", 1e6},     Unit{"GB", 1e9},
    Unit{"TB", 1e12}, Unit{"KiB", 1024.0}, Unit{"MiB", 1048576.0}, Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};

std::string quoted(const std::string& text) { return "'" + text + "'"; }

// A finite number above 0 followed by one of the units; empty when the text is anything else.
std::optional<double> number_with_unit(std::string_view text, std::span<const Unit> units) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0.0) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units)
    if (rest == unit.name) return number * unit.factor;
  return std::nullopt;
}

}  // namespace

double parse_duration_seconds(const std::string& flag, const std::string& text) {
  const std::optional<double> seconds = number_with_unit(text, durations);
  // A year: longer is a slip of the finger, and stays far from what a clock's arithmetic can hold.
  if (!seconds || *seconds > 366.0 * 86400.0)
    throw InputError(flag, quoted(text), "a time with its unit, such as 90s, 20m or 2h");
  return *seconds;
}

double parse_per_cent(const std::string& flag, const std::string& text) {
  const std::optional<double> share = number_with_unit(text, shares);
  if (!share || *share > 1.0) throw InputError(flag, quoted(text), "a percentage such as 5%, at most 100%");
  return *share;
}

double parse_milliseconds(const std::string& flag, const std::string& text) {
  const std::optional<double> milliseconds = number_with_unit(text, response_times);
  if (!milliseconds) throw InputError(flag, quoted(text), "a time with its unit, such as 20ms or 1.5s");
  return *milliseconds;
}

std::int64_t parse_bytes(const std::string& flag, const std::string& text) {
  const std::optional<double> bytes = number_with_unit(text, sizes);
  if (!bytes || *bytes < 1.0 || *bytes > 0x1p62)
    throw InputError(flag, quoted(text), "a size such as 12GiB, 500MB or a number of bytes");
  return static_cast<std::int64_t>(*bytes);
}

double parse_positive(const std::string& flag, const std::string& text) {
  const std::optional<double> number = number_with_unit(text, plain);
  if (!number || *number > 1e9)
    throw InputError(flag, quoted(text), "a number above 0 and at most 1e9, such as 0.25");
  return *number;
}

std::int64_t parse_whole_number(const std::string& flag, const std::string& text, std::int64_t low,
                                std::int64_t high) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= low && number <= high)
    return number;
  // The bound of the type itself concerns only who went beyond it.
  const std::string range =
      high == std::numeric_limits<std::int64_t>::max() && error != std::errc::result_out_of_range
          ? std::to_string(low) + " or more"
          : std::to_string(low) + " to " + std::to_string(high);
  throw InputError(flag, quoted(text), "a whole number, " + range);
}

std::vector<std::string> split_list(const std::string& flag, const std::string& text, char separator) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    items.push_back(text.substr(begin, end - begin));
    if (items.back().empty())
      throw InputError(flag, quoted(text) + " has an empty item",
                       std::string("values separated by single '") + separator + "'");
    if (end == std::string::npos) return items;
    begin = end + 1;
  }
}

std::pair<std::string, std::string> parse_assignment(const std::string& flag, const std::string& text,
                                                     const std::string& accepted) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw InputError(flag, quoted(text), accepted);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> parse_assignments(const std::string& flag,
                                                                   const std::vector<std::string>& texts,
                                                                   const std::string& accepted) {
  std::vector<std::pair<std::string, std::string>> assignments;
  for (const std::string& text : texts) {
    const auto added = parse_assignment(flag, text, accepted);
    for (const auto& [name, value] : assignments)
      if (name == added.first)
        throw InputError(flag, quoted(text) + " beside " + quoted(name + "=" + value), "each name once");
    assignments.push_back(added);
  }
  return assignments;
}

}  // namespace moetune
