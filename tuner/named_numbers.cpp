#include "tuner/named_numbers.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

namespace moetune {

std::map<std::string, std::uint64_t> named_numbers(std::string_view text) {
  std::map<std::string, std::uint64_t> numbers;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    std::string_view name = line.substr(0, line.find_first_of(" \t"));
    const std::size_t begin = line.find_first_not_of(" \t", name.size());
    if (name.ends_with(':')) name.remove_suffix(1);
    if (name.empty() || begin == std::string_view::npos) continue;
    std::uint64_t number = 0;
    const char* const end = line.data() + line.size();
    if (std::from_chars(line.data() + begin, end, number).ec == std::errc())
      numbers[std::string(name)] = number;
  }
  return numbers;
}

std::map<std::string, std::uint64_t> named_numbers_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  return named_numbers(text);
}

std::optional<std::uint64_t> number_named(std::string_view name, const std::filesystem::path& file) {
  const auto numbers = named_numbers_in(file);
  const auto found = numbers.find(std::string(name));
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace moetune
