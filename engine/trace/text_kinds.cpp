#include "engine/trace/text_kinds.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/mapped_file.h"

namespace moetune {
namespace {

constexpr std::int64_t kLargestTable = 1 << 20;  // bytes

std::int64_t number_of(const std::string& text, std::int64_t least, std::int64_t most,
                       const std::string& place) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    throw InputError(place, "'" + text + "'", fmt::format("{} .. {}", least, most));
  return number;
}

}  // namespace

TextKinds parse_text_kinds(const std::string& table, std::int64_t tokens, const std::string& where) {
  TextKinds kinds;
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);  // the heading
  for (int number = 2; std::getline(lines, line); ++number) {
    std::istringstream fields(line);
    std::string first;
    std::string bytes;
    std::string kind;
    std::getline(fields, first, '\t');
    std::getline(fields, bytes, '\t');
    std::getline(fields, kind, '\t');
    const auto place = [&](const char* field) {
      return fmt::format("{}, line {}: {}", where, number, field);
    };
    const std::int64_t begin = number_of(first, std::ssize(kinds.of_token), tokens, place("first_byte"));
    const std::int64_t count = number_of(bytes, 1, tokens - begin, place("bytes"));
    if (kind.empty() || kind.find(',') != std::string::npos)
      throw InputError(place("kind"), "'" + kind + "'", "a name without commas");
    auto found = std::ranges::find(kinds.names, kind);
    if (found == kinds.names.end()) found = kinds.names.insert(found, kind);
    const auto index = static_cast<std::int32_t>(found - kinds.names.begin());
    kinds.of_token.resize(static_cast<std::size_t>(begin + count),
                          index);  // what lies between two ranges belongs to the later one
  }
  if (kinds.names.empty()) kinds.names.emplace_back("text");
  kinds.of_token.resize(static_cast<std::size_t>(tokens), static_cast<std::int32_t>(kinds.names.size()) - 1);
  return kinds;
}

TextKinds text_kinds(const std::string& directory, std::int64_t tokens) {
  const std::string path = directory + "/calibration_sources.tsv";
  if (directory.empty() || !std::filesystem::exists(path))
    return {.names = {"text"}, .of_token = std::vector<std::int32_t>(static_cast<std::size_t>(tokens), 0)};
  return parse_text_kinds(read_text_file(path, kLargestTable), tokens, path);
}

}  // namespace moetune
