#include "engine/facts/knob_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "engine/facts/error.h"

namespace moetune {
namespace {

constexpr std::int64_t kKibi = 1024;
constexpr std::int64_t kKilo = 1000;

struct SizeUnit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<SizeUnit, 9> kSizeUnits{{{"TiB", kKibi* kKibi* kKibi* kKibi},
                                              {"GiB", kKibi* kKibi* kKibi},
                                              {"MiB", kKibi* kKibi},
                                              {"KiB", kKibi},
                                              {"TB", kKilo* kKilo* kKilo* kKilo},
                                              {"GB", kKilo* kKilo* kKilo},
                                              {"MB", kKilo* kKilo},
                                              {"KB", kKilo},
                                              {"B", 1}}};

// The whole text as one number; empty when anything is left over.
template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(std::string_view knob, std::string_view text, std::string_view accepted) {
  throw InputError(std::string(knob), "'" + std::string(text) + "'", std::string(accepted));
}

}  // namespace

int parse_integer(std::string_view knob, std::string_view text, std::string_view accepted, int least,
                  int most) {
  const auto value = whole_number<int>(text);
  if (!value || *value < least || *value > most) refuse(knob, text, accepted);
  return *value;
}

double parse_number(std::string_view knob, std::string_view text, std::string_view accepted, double least,
                    double most) {
  const auto value = whole_number<double>(text);
  if (!value || !(*value >= least && *value <= most)) refuse(knob, text, accepted);  // NaN is refused, too
  return *value;
}

bool parse_on_off(std::string_view knob, std::string_view text) {
  if (text == "on" || text == "true") return true;
  if (text == "off" || text == "false") return false;
  refuse(knob, text, "on, off");
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  for (const SizeUnit& unit : kSizeUnits) {
    if (!text.ends_with(unit.name)) continue;
    std::string_view number = text.substr(0, text.size() - unit.name.size());
    while (!number.empty() && number.back() == ' ') number.remove_suffix(1);
    const auto value = whole_number<double>(number);
    if (!value) return std::nullopt;
    const double bytes = std::floor(*value * static_cast<double>(unit.bytes));
    if (!(bytes >= 1.0 && bytes <= 0x1p62)) return std::nullopt;
    return static_cast<std::int64_t>(bytes);
  }
  return std::nullopt;
}

std::string exact_size_text(std::int64_t bytes) {
  for (const SizeUnit& unit : kSizeUnits)
    if (unit.name.size() == 3 && bytes % unit.bytes == 0)
      return std::to_string(bytes / unit.bytes) + std::string(unit.name);
  return std::to_string(bytes) + "B";
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

}  // namespace moetune
