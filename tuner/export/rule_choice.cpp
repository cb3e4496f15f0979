#include "tuner/export/rule_choice.h"

#include <algorithm>

namespace moetune {
namespace {

// Of a setting that holds a number; 1 where the profile does not name it.
int other_number(const std::string& setting, const PlaceholderFacts& facts) {
  const auto found = facts.settings.find(setting);
  return found == facts.settings.end() ? 1 : whole_setting(setting, found->second);
}

bool relations_hold(const std::string& setting, const SettingRule& rule, const PlaceholderFacts& facts) {
  if (rule.equals.empty() && rule.divides.empty() && rule.not_below.empty()) return true;
  const int number = whole_setting(setting, facts.value);
  if (!rule.equals.empty() && other_number(rule.equals, facts) != number) return false;
  if (!rule.divides.empty() && other_number(rule.divides, facts) % number != 0) return false;
  return rule.not_below.empty() || number >= other_number(rule.not_below, facts);
}

bool is_known_version(const SettingRule& rule, const std::string& version) {
  return rule.since.empty() || version.empty() || !is_older(version, rule.since);
}

bool holds(const std::string& setting, const SettingRule& rule, const PlaceholderFacts& facts) {
  const bool on_cpu = facts.profile.hardware.device == "cpu";
  if (!rule.when.empty() && std::ranges::find(rule.when, facts.value) == rule.when.end()) return false;
  if (!relations_hold(setting, rule, facts)) return false;
  if (rule.nesting && *rule.nesting == family_of(facts).nesting.empty()) return false;
  if (!rule.device.empty() && (rule.device == "cpu") != on_cpu) return false;
  if (!is_known_version(rule, facts.inputs.server_version)) return false;
  if (rule.methods.empty()) return true;
  const auto method = facts.inputs.given.find("kt_method");
  return method != facts.inputs.given.end() &&
         std::ranges::find(rule.methods, method->second) != rule.methods.end();
}

}  // namespace

const SettingRule* chosen_rule(const std::string& setting, bool names_the_value,
                               const PlaceholderFacts& facts) {
  const auto rules = facts.table.settings.find(setting);
  if (rules == facts.table.settings.end()) return nullptr;
  for (const SettingRule& rule : rules->second)
    if (rule.when.empty() != names_the_value && holds(setting, rule, facts)) return &rule;
  return nullptr;
}

}  // namespace moetune
