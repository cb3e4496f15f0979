// "1 trial", "2 trials": a number with its noun, for every text that a person reads.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace moetune {

// plural: where an s is not enough ("boxes", "processes").
template <std::integral Number>
std::string counted(Number number, std::string_view noun, std::string_view plural = "") {
  std::string text = std::to_string(number) + " ";
  if (number == 1 || plural.empty()) text += noun;
  if (number == 1) return text;
  return plural.empty() ? text + "s" : text.append(plural);
}

}  // namespace moetune
