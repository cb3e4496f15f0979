#include "tuner/json_fields.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/problems.h"

namespace moetune {
namespace {
using nlohmann::json;

// dump() and the destructors of validators recurse: a deeper document could exhaust the stack.
constexpr int max_depth = 64;
constexpr std::size_t max_shown = 60;

// Raised inside the parser's callback; caught by parse_json(), which knows the place.
struct Refused {
  std::string found;
  std::string accepted;
};

// Stand-ins for what was refused; see problems.h.
const json no_value;
const json no_list = json::array();
const json no_object = json::object();

// Whole numbers print without a fraction: 1.0 and 1 are one value of a knob.
std::string number_text(const json& number) {
  if (number.is_number_float()) {
    const double value = number.get<double>();
    constexpr double exact_below = 9007199254740992.0;  // 2^53
    if (value == std::floor(value) && std::abs(value) < exact_below)
      return json(static_cast<std::int64_t>(value)).dump();
  }
  return number.dump();
}
}  // namespace

json parse_json(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> open_objects;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth)
      throw Refused{"nested more than " + std::to_string(max_depth) + " levels deep", "a flatter document"};
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key) {
      const auto name = parsed.get<std::string>();
      if (!open_objects.back().insert(name).second)
        throw Refused{"field " + shown(name) + " is given twice", "every field once"};
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const Refused& refused) {
    throw InputError(where, refused.found, refused.accepted);
  } catch (const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: syntax
    // error ...": the tag helps nobody.
    std::string message = error.what();
    if (const auto end = message.find("] "); end != std::string::npos) message.erase(0, end + 2);
    std::string printable;
    for (const char c : message)
      printable += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
    throw InputError(where, printable, "one JSON document");
  }
}

json read_json_file(const std::string& file, std::int64_t max_bytes) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file, "cannot be opened", "a readable JSON file");
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) || stream.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    if (static_cast<std::int64_t>(text.size()) > max_bytes)
      throw InputError(file, "is larger than " + std::to_string(max_bytes) + " bytes",
                       "a JSON file of that size at most");
  }
  if (stream.bad()) throw InputError(file, "cannot be read", "a readable JSON file");
  return parse_json(text, file);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > max_shown) text = text.substr(0, max_shown) + "...";
  return text;
}

std::string scalar_text(const json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return number_text(value);
  refuse(where, shown(value), "a text or a number");
  return {};
}

std::string canonical_number(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  return parsed.is_number() ? number_text(parsed) : text;
}

json scalar_json(const std::string& text) {
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_number() && number_text(parsed) == text) return parsed;
  return text;
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object.is_object() ? object : no_object), where_(std::move(where)) {
  if (!object.is_object()) refuse(where_, shown(object), "an object");
}

std::string JsonFields::place(std::string_view field) const {
  // "file: a" has a field path already; "file" has not.
  const char* joint = where_.find(": ") == std::string::npos ? ": " : ".";
  return where_ + joint + std::string(field);
}

bool JsonFields::has(std::string_view field) const {
  const auto found = object_.find(std::string(field));
  return found != object_.end() && !found->is_null();
}

const json& JsonFields::required(std::string_view field) const {
  const auto found = object_.find(std::string(field));
  if (found != object_.end()) return *found;
  refuse(where_, "field '" + std::string(field) + "' is missing", "", place(field));
  return no_value;
}

const json& JsonFields::array(std::string_view field) const {
  const json& value = required(field);
  if (value.is_array()) return value;
  refuse(place(field), shown(value), "a list");
  return no_list;
}

const json& JsonFields::object(std::string_view field) const {
  const json& value = required(field);
  if (value.is_object()) return value;
  refuse(place(field), shown(value), "an object");
  return no_object;
}

std::string JsonFields::text(std::string_view field) const {
  const json& value = required(field);
  if (value.is_string()) return value.get<std::string>();
  refuse(place(field), shown(value), "a text");
  return {};
}

std::string JsonFields::text_or(std::string_view field, const std::string& otherwise) const {
  return object_.contains(std::string(field)) ? text(field) : otherwise;
}

bool JsonFields::flag(std::string_view field) const {
  const json& value = required(field);
  if (value.is_boolean()) return value.get<bool>();
  refuse(place(field), shown(value), "true or false");
  return false;
}

double JsonFields::number(std::string_view field) const {
  const json& value = required(field);
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  refuse(place(field), shown(value), "a number");
  return 0.0;
}

std::int64_t JsonFields::integer(std::string_view field, std::int64_t lowest, std::int64_t highest) const {
  const json& value = required(field);
  // An unsigned value above the signed range would wrap around to a negative one.
  const bool wraps = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (value.is_number_integer() && !wraps && value.get<std::int64_t>() >= lowest &&
      value.get<std::int64_t>() <= highest)
    return value.get<std::int64_t>();
  refuse(place(field), shown(value),
         "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  return lowest;
}

std::uint64_t JsonFields::unsigned_integer(std::string_view field) const {
  const json& value = required(field);
  // Parsed from text it is unsigned; built in memory from an int it may be a signed one that is not negative.
  if (value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0))
    return value.get<std::uint64_t>();
  refuse(place(field), shown(value), "a whole number from 0 to 18446744073709551615");
  return 0;
}

void JsonFields::only(const std::vector<std::string_view>& known) const {
  for (const auto& [name, value] : object_.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      refuse(where_, "unknown field " + shown(name), fmt::format("{}", fmt::join(known, ", ")), place(name));
}

}  // namespace moetune
