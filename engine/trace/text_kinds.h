// What kind of text each token of a model's calibration text is: languages, programs. Start at text_kinds().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moetune {

struct TextKinds {
  std::vector<std::string> names;
  std::vector<std::int32_t> of_token;  // indices into names
};

// table: lines of tab-separated first_byte, bytes, kind and whatever else, under a heading; the ranges follow
// one another, and a token is a byte. where: its name, for messages. Throws InputError naming line, value and
// what is accepted.
TextKinds parse_text_kinds(const std::string& table, std::int64_t tokens, const std::string& where);

// Of calibration_sources.tsv in a checkpoint's directory; one kind, "text", where there is no such file.
TextKinds text_kinds(const std::string& directory, std::int64_t tokens);

}  // namespace moetune
