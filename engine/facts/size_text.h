// A number of bytes as a person reads it.
#pragma once

#include <string>

namespace moetune {

// Three significant digits, without an exponent for everyday numbers: "0.412", "13.2", "641".
std::string three_digits(double value);

// In the largest unit of which there is one: "641 GiB", "9.00 MiB", "20.0 KiB", "512 bytes".
std::string size_text(double bytes);

}  // namespace moetune
