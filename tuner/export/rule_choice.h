// Which rule of a server table says a setting. Start at chosen_rule().
#pragma once

#include <string>

#include "tuner/export/placeholders.h"
#include "tuner/export/server_table.h"

namespace moetune {

// The first rule of the setting whose conditions all hold; nullptr: none. names_the_value: among the rules
// that list values, else among those that do not. facts.value: of the setting.
const SettingRule* chosen_rule(const std::string& setting, bool names_the_value,
                               const PlaceholderFacts& facts);

}  // namespace moetune
