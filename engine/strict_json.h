// JSON from files that nobody vouches for: duplicate keys, deep nesting and trailing text are errors, never
// surprises.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moetune {

// The value of `text`. where: the file's path, for messages. Throws InputError saying at which byte the text
// stops being JSON, which key stands twice, or that it nests deeper than max_depth.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, int max_depth = 16);

namespace strict_json {  // the tuner has a function of this name, and both end up in one program
// A short rendering of a value for messages: cut after 60 characters.
std::string shown(const nlohmann::json& value);
}  // namespace strict_json
using strict_json::shown;

// A key in a message: as it is when it looks like a name, else like a value (a key may hold line breaks and
// megabytes).
std::string shown_key(const std::string& key);

}  // namespace moetune
