#include "tuner/export/claims.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/facts/error.h"
#include "tuner/export/table_fields.h"
#include "tuner/json_fields.h"
#include "tuner/printable.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

constexpr std::array<const char*, 5> verdicts{"true", "false", "depends", "not_testable", "unchecked"};

bool holds(const std::vector<std::string>& list, const std::string& plain) {
  return std::ranges::any_of(list, [&](const std::string& flag) { return plain_flag(flag) == plain; });
}

FlagUse use_in(const ServerTable& table, const std::string& plain) {
  FlagUse use{.server = table.name, .flag = "", .settings = {}, .values = {}, .standing = ""};
  for (const std::string& flag : table.flags)
    if (plain_flag(flag) == plain) {
      use.flag = flag;
      use.standing = "accepted";
    }
  for (const auto& [flag, instead] : table.deprecated_flags)
    if (plain_flag(flag) == plain) use.standing = "accepted, but deprecated: " + instead;
  if (use.standing.empty() && holds(table.removed_flags, plain))
    use.standing = "removed, was in earlier versions";
  if (holds(table.rejected_flags, plain)) use.standing = "known to its parser and refused";
  for (const auto& [setting, rules] : table.settings)
    if (std::ranges::any_of(rules, [&](const SettingRule& rule) { return holds(rule.arguments, plain); }))
      use.settings.push_back(setting);
  if (const auto values = table.values.find(use.flag); values != table.values.end())
    use.values = values->second;
  return use;
}

}  // namespace

std::vector<Claim> read_claims(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonFields fields(document, file);
  fields.only({"schema", "verdicts", "claims"});
  fields.integer("schema", 1, 1);
  std::vector<Claim> claims;
  for_each_object(fields, "claims", [&](const JsonFields& entry) {
    entry.only({"id", "flags", "claim", "verdict", "fact", "source"});
    claims.push_back({.id = entry.text("id"),
                      .flags = texts_or_none(entry, "flags"),
                      .claim = entry.text("claim"),
                      .verdict = entry.text("verdict"),
                      .fact = entry.text("fact"),
                      .source = entry.text("source")});
    if (std::ranges::find(verdicts, claims.back().verdict) == verdicts.end())
      refuse(entry.place("verdict"), "'" + claims.back().verdict + "'",
             fmt::format("{}", fmt::join(verdicts, ", ")));
  });
  return claims;
}

std::string plain_flag(const std::string& text) {
  std::string plain = text.substr(0, text.find_first_of("= "));
  plain.erase(0, std::min(plain.find_first_not_of('-'), plain.size()));
  for (char& c : plain) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return "--" + plain;
}

Explanation explain(const std::string& flag, const std::vector<Claim>& claims,
                    const std::vector<ServerTable>& tables) {
  const auto end = flag.find_first_of("= ");
  Explanation result{.flag = plain_flag(flag),
                     .value = end == std::string::npos ? "" : flag.substr(end + 1),
                     .claims = {},
                     .uses = {},
                     .incomplete = {}};
  if (result.flag == "--")
    throw InputError("--explain", "'" + printable(flag) + "'",
                     "a flag of a server, such as --enable-expert-cache");
  for (const ServerTable& table : tables) {
    // "-tp" is short for something on this server.
    const auto full = flag.starts_with("--") ? table.short_flags.end()
                                             : table.short_flags.find("-" + result.flag.substr(2));
    if (full != table.short_flags.end()) {
      FlagUse use = use_in(table, plain_flag(full->second));
      use.standing = "short for " + full->second;
      result.uses.push_back(std::move(use));
      continue;
    }
    FlagUse use = use_in(table, result.flag);
    if (!use.standing.empty())
      result.uses.push_back(std::move(use));
    else if (!table.flags_complete)
      result.incomplete.push_back(table.name);
  }
  for (const Claim& claim : claims)
    if (holds(claim.flags, result.flag)) result.claims.push_back(claim);
  return result;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = printable(explanation.flag) + "\n";
  for (const Claim& claim : explanation.claims)
    text += fmt::format("  said: {}\n  {}: {}\n  source: {}\n", claim.claim, claim.verdict, claim.fact,
                        claim.source.empty() ? "none yet" : claim.source);
  for (const FlagUse& use : explanation.uses) {
    text += fmt::format("  {}: {}", use.server, use.standing);
    if (!use.settings.empty()) text += fmt::format("; says {}", fmt::join(use.settings, ", "));
    if (!use.values.empty()) text += fmt::format("; takes {}", fmt::join(use.values, ", "));
    const bool refused = !explanation.value.empty() && !use.values.empty() &&
                         std::ranges::find(use.values, explanation.value) == use.values.end();
    text += refused ? "; '" + printable(explanation.value) + "' is none of them\n" : "\n";
  }
  if (explanation.uses.empty())
    text += "  No server that this program has a table of accepts it: 'moetune export' cannot print it.\n";
  if (!explanation.incomplete.empty())
    text += fmt::format("  Not known of {}: their lists of flags are not complete.\n",
                        fmt::join(explanation.incomplete, ", "));
  text.pop_back();
  return text;
}

nlohmann::json explanation_document(const Explanation& explanation) {
  nlohmann::json document = {{"flag", explanation.flag},
                             {"value", explanation.value},
                             {"claims", nlohmann::json::array()},
                             {"servers", nlohmann::json::array()},
                             {"not_known_of", explanation.incomplete}};
  for (const Claim& claim : explanation.claims)
    document["claims"].push_back({{"id", claim.id},
                                  {"claim", claim.claim},
                                  {"verdict", claim.verdict},
                                  {"fact", claim.fact},
                                  {"source", claim.source}});
  for (const FlagUse& use : explanation.uses)
    document["servers"].push_back({{"server", use.server},
                                   {"flag", use.flag},
                                   {"standing", use.standing},
                                   {"settings", use.settings},
                                   {"values", use.values}});
  return document;
}

}  // namespace moetune
