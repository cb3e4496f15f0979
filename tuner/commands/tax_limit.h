// Does the tax of a token stay under what a user said it costs elsewhere? Start at tax_limit_text().
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tuner/targets/tax_run.h"

namespace moetune {

// Per token: the complaint that this answers is of agents whose synchronisation tax alone takes that long.
inline constexpr double most_tax_ms = 15.0;

// Of decoding, typical and in its slowest hundredth where that is known. Empty where the breakdown was
// refused.
std::string tax_limit_text(const PhaseTax& decode);
// {"limit_ms": 15, "is_under": true, "is_under_when_slowest": true}; null where it was refused.
nlohmann::json tax_limit_json(const PhaseTax& decode);

}  // namespace moetune
