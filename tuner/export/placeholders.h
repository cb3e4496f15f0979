// The words in <angle brackets> of the server tables, and what stands for them. Start at filled().
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tuner/export/translate.h"

namespace moetune {

// Everything a placeholder may be made from, for one line.
struct PlaceholderFacts {
  const LaunchProfile& profile;
  const KnobNames& names;
  const ExportInputs& inputs;
  const ServerTable& table;
  const std::map<std::string, std::string>& settings;  // all of the profile and its workload
  std::string value;                                   // of the setting the line is for
};

// A setting that is a number: its text as one, 1 or more. Throws InputError naming the setting.
int whole_setting(std::string_view name, const std::string& text);

std::vector<std::string> placeholder_names();  // without brackets

// "<value>" -> its text; any other text as it is. used, unless null, collects the names. Throws InputError
// naming the option that would say what is missing.
std::string filled(const std::string& text, const PlaceholderFacts& facts,
                   std::set<std::string>* used = nullptr);
std::vector<std::string> filled(const std::vector<std::string>& texts, const PlaceholderFacts& facts,
                                std::set<std::string>* used = nullptr);
// Of every text in a JSON value. Where a text is one placeholder that gives JSON ("<top_k_object>") it is put
// there as such.
nlohmann::json filled(const nlohmann::json& value, const PlaceholderFacts& facts,
                      std::set<std::string>* used = nullptr);

// The share of routed experts that "0.25" or "12GiB" keeps on the device.
double resident_share(const PlaceholderFacts& facts);
const TopKKey& family_of(const PlaceholderFacts& facts);  // throws InputError where the family is not known

}  // namespace moetune
