#include "engine/facts/size_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace moetune {
namespace {

std::string printed(const char* format, int digits, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, digits, value);
  return text.data();
}

}  // namespace

std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size == 0.0) return "0";
  if (size >= 1e6 || size < 1e-4) return printed("%.*e", 2, value);
  const int exponent = static_cast<int>(std::floor(std::log10(size)));
  const int digits = std::max(0, 2 - exponent);
  // 0.9996 rounds to 1.00, which has three digits already.
  const bool carries = size + 0.5 * std::pow(10.0, -digits) >= std::pow(10.0, exponent + 1);
  return printed("%.*f", carries ? std::max(0, digits - 1) : digits, value);
}

std::string size_text(double bytes) {
  for (const auto& [unit, size] :
       {std::pair{" GiB", 1073741824.0}, std::pair{" MiB", 1048576.0}, std::pair{" KiB", 1024.0}})
    // 1023.9 of the unit below round to 1024 of it, and that is one.
    if (std::abs(bytes) >= size * (1.0 - 0.5 / 1024.0)) return three_digits(bytes / size) + unit;
  return three_digits(bytes) + " bytes";
}

std::string size_text(std::int64_t bytes) { return size_text(static_cast<double>(bytes)); }

}  // namespace moetune
