// Text of a command-line value -> number. Every function throws InputError naming the flag, the text and what
// is accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moetune {

// "90s", "20m", "2h", "1.5h"; a bare number is refused, because it could mean anything. Seconds, above 0.
double parse_duration_seconds(const std::string& flag, const std::string& text);

// "12GiB", "500MB", "4096" (bytes); decimal and binary units. Bytes, above 0.
std::int64_t parse_bytes(const std::string& flag, const std::string& text);

// "0.25", "2": prices, years. Above 0, at most 1e9: more is a slip of the finger.
double parse_positive(const std::string& flag, const std::string& text);

// A whole number in [low, high].
std::int64_t parse_whole_number(const std::string& flag, const std::string& text, std::int64_t low,
                                std::int64_t high);

// "1,5,9" -> {"1", "5", "9"}; empty items are refused.
std::vector<std::string> split_list(const std::string& flag, const std::string& text, char separator = ',');

// "20ms", "1.5s"; the unit has to be there. Milliseconds, above 0.
double parse_milliseconds(const std::string& flag, const std::string& text);

// "5%", "0.5 %"; a bare number is refused, because 0.05 and 5 could mean the same. A share, above 0 and at
// most 1.
double parse_per_cent(const std::string& flag, const std::string& text);

// "name=value" -> {"name", "value"}; accepted: in words, for the message.
std::pair<std::string, std::string> parse_assignment(const std::string& flag, const std::string& text,
                                                     const std::string& accepted);

// The same of an option that may be given several times. A name that is given twice is refused: one of the
// two would be dropped.
std::vector<std::pair<std::string, std::string>> parse_assignments(const std::string& flag,
                                                                   const std::vector<std::string>& texts,
                                                                   const std::string& accepted);

}  // namespace moetune
