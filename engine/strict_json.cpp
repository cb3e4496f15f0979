// Duplicate keys are found in the parser's callback: the parsed object itself has already forgotten one of
// them.
#include "engine/strict_json.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"

namespace moetune {
namespace {

// At most `longest` bytes of a text, and a sign where something was cut.
std::string cut(std::string text, std::size_t longest) {
  if (text.size() <= longest) return text;
  text.resize(longest);
  return text + "...";
}

// The library's text without its own "[json.exception.parse_error.101] " in front. It quotes the last token,
// however long.
std::string reason_of(const nlohmann::json::exception& error) {
  constexpr std::size_t kLongest = 200;
  const std::string text = error.what();
  const std::size_t end_of_tag = text.find("] ");
  return cut(end_of_tag == std::string::npos ? text : text.substr(end_of_tag + 2), kLongest);
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> open_objects;  // keys seen so far, one set per object that is still open
  const auto check = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > max_depth) {
      throw InputError(where, fmt::format("JSON nested deeper than {} levels", max_depth),
                       "a flat JSON object");
    }
    if (event == Event::object_start) {
      open_objects.emplace_back();
    } else if (event == Event::object_end) {
      open_objects.pop_back();
    } else if (event == Event::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      throw InputError(where, fmt::format("key {} stands twice in one object", shown(parsed)),
                       "each key once");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(where, "not valid JSON: " + reason_of(error), "");
  }
}

std::string strict_json::shown(const nlohmann::json& value) {
  constexpr std::size_t kLongest = 60;
  // replace, not throw: a message about bad text must not fail on the same bad text
  return cut(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), kLongest);
}

std::string shown_key(const std::string& key) {
  constexpr std::size_t kLongest = 200;
  const bool is_printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
  return is_printable && !key.empty() && key.size() <= kLongest ? key : shown(key);
}

}  // namespace moetune
