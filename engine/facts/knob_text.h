// Values of knobs from and to text, with one clear error for each way in which a text can be wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

// Each throws InputError naming the knob, the text and `accepted` when the text is not of its kind or out of
// range.
int parse_integer(std::string_view knob, std::string_view text, std::string_view accepted, int least,
                  int most);
double parse_number(std::string_view knob, std::string_view text, std::string_view accepted, double least,
                    double most);
bool parse_on_off(std::string_view knob, std::string_view text);

// "12GiB", "500MB", "1.5GiB", "4096B": bytes, at least 1. A bare number is no size (empty), so that 0.5 stays
// a share.
std::optional<std::int64_t> parse_size(std::string_view text);
// The largest unit that gives a whole number: "12GiB", "1000B".
std::string exact_size_text(std::int64_t bytes);

// The shortest text that reads back as the same number: "0.25", "1".
std::string number_text(double value);

}  // namespace moetune
