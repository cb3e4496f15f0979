#include "tuner/utc_time.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>

#include <fmt/chrono.h>

namespace moetune {
namespace {
std::tm now() { return fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())); }
}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now()); }
std::string utc_now_compact() { return fmt::format("{:%Y%m%dT%H%M%SZ}", now()); }

bool is_utc(const std::string& text) {
  constexpr std::string_view form = "0000-00-00T00:00:00Z";
  const auto is_like = [](char c, char wanted) { return wanted == '0' ? '0' <= c && c <= '9' : c == wanted; };
  if (!std::ranges::equal(text, form, is_like)) return false;
  const auto number = [&](std::size_t start, std::size_t count) {
    int value = 0;
    for (const char digit : text.substr(start, count)) value = 10 * value + (digit - '0');
    return value;
  };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  return day.ok() && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) <= 60;  // 60: a leap second
}

}  // namespace moetune
