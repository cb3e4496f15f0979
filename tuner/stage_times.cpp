#include "tuner/stage_times.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

namespace moetune {
namespace {
constexpr double worth_naming = 0.05;  // of the whole time
}

std::string stage_of(std::string_view words) {
  const auto comma = words.find(", ");
  const bool counts =
      comma != std::string_view::npos &&
      std::ranges::any_of(words.substr(comma), [](unsigned char c) { return std::isdigit(c); });
  return std::string(counts ? words.substr(0, comma) : words);
}

void StageTimes::begin(std::string_view words, double at_seconds) {
  std::string name = stage_of(words);
  if (stages_.empty() || stages_.back().name != name) stages_.push_back({std::move(name), at_seconds});
}

std::string StageTimes::text(double now_seconds) const {
  if (stages_.empty()) return "";
  const double whole = now_seconds - stages_.front().begin_seconds;
  std::string text;
  int named = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const double end = i + 1 < stages_.size() ? stages_[i + 1].begin_seconds : now_seconds;
    const double seconds = end - stages_[i].begin_seconds;
    if (seconds < worth_naming * whole) continue;
    text += fmt::format("{}{} ({:.3g} s)", named++ > 0 ? ", " : "", stages_[i].name, seconds);
  }
  return named < 2 ? "" : text;
}

}  // namespace moetune
