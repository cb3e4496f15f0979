// A number of bytes as a person reads it; exact_size_text() of knob_text.h writes what a knob accepts.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

// Three significant digits, without an exponent for everyday numbers: "0.412", "13.2", "641".
std::string three_digits(double value);

// In the largest unit of which there is one, as it is rounded: "641 GiB", "9.00 MiB", "20.0 KiB", "512
// bytes".
std::string size_text(double bytes);
std::string size_text(std::int64_t bytes);

}  // namespace moetune
