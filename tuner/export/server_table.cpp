#include "tuner/export/server_table.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "engine/facts/error.h"
#include "tuner/export/table_fields.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

SettingRule rule_from(const JsonFields& fields) {
  fields.only({"when", "relation", "not_below", "nesting", "device", "since", "method", "arguments",
               "environment", "config", "note", "none", "nearest", "nearest_arguments", "cost"});
  SettingRule rule;
  rule.when = texts_or_none(fields, "when");
  for (const auto& [relation, other] : text_map_or_none(fields, "relation")) {
    if (relation == "equals")
      rule.equals = other;
    else if (relation == "divides")
      rule.divides = other;
    else
      refuse(fields.place("relation"), "'" + relation + "'", "equals, divides");
  }
  rule.not_below = fields.text_or("not_below", "");
  if (fields.has("nesting")) rule.nesting = fields.flag("nesting");
  rule.device = fields.text_or("device", "");
  if (!rule.device.empty() && rule.device != "cpu" && rule.device != "gpu")
    refuse(fields.place("device"), "'" + rule.device + "'", "cpu, gpu");
  rule.since = fields.text_or("since", "");
  rule.methods = texts_or_none(fields, "method");
  rule.arguments = texts_or_none(fields, "arguments");
  rule.environment = text_map_or_none(fields, "environment");
  if (fields.has("config")) rule.config = fields.object("config");
  rule.note = fields.text_or("note", "");
  rule.none = fields.text_or("none", "");
  rule.nearest = fields.text_or("nearest", "");
  rule.nearest_arguments = texts_or_none(fields, "nearest_arguments");
  rule.cost = fields.text_or("cost", "");
  const bool says = !rule.arguments.empty() || !rule.environment.empty() || !rule.config.is_null();
  if (says && !rule.none.empty())
    refuse(fields.where(), "a rule that says something and has no equivalent", "one of both");
  if (!says && rule.none.empty() && rule.note.empty())
    refuse(fields.where(), "a rule without effect or note", "arguments, environment, config, none or note");
  if (rule.nearest.empty() != rule.cost.empty())
    refuse(fields.where(), "nearest without cost", "both or neither");
  return rule;
}

// Flags are followed by their values: a word that begins with "--" is a flag.
void check_arguments(const ServerTable& table, const std::string& where,
                     const std::vector<std::string>& arguments) {
  std::string flag;
  for (const std::string& word : arguments) {
    if (word.starts_with("--")) {
      flag = word;
      if (!table.knows_flag(flag)) refuse(where, "'" + flag + "'", "a flag that the table lists");
      continue;
    }
    const auto accepted = table.values.find(flag);
    if (accepted != table.values.end() && !word.starts_with('<') && !contains(accepted->second, word))
      refuse(where, flag + " " + word, "a value that the table lists for it");
  }
}

void check_rule(const ServerTable& table, const std::string& where, const SettingRule& rule) {
  check_arguments(table, where, rule.arguments);
  check_arguments(table, where, rule.nearest_arguments);
  for (const auto& [variable, value] : rule.environment)
    if (!contains(table.environment, variable))
      refuse(where, "'" + variable + "'", "a variable that the table lists");
  if (rule.config.is_null()) return;
  if (table.config_flag.empty()) refuse(where, "config", "a table with a config_flag");
  for (const auto& [key, value] : rule.config.items())
    if (!contains(table.config_keys, key)) refuse(where, "'" + key + "'", "a key that the table lists");
}

void read_lists(ServerTable& table, const JsonFields& fields) {
  table.flags_complete = fields.flag("flags_complete");
  table.flags = texts_or_none(fields, "flags");
  table.short_flags = text_map_or_none(fields, "short_flags");
  table.removed_flags = texts_or_none(fields, "removed_flags");
  table.rejected_flags = texts_or_none(fields, "rejected_flags");
  table.deprecated_flags = text_map_or_none(fields, "deprecated_flags");
  table.environment = texts_or_none(fields, "environment");
  table.config_keys = texts_or_none(fields, "config_keys");
  const JsonFields values(fields.object("values"), fields.place("values"));
  for (const auto& [flag, list] : fields.object("values").items())
    table.values[flag] = texts_or_none(values, flag);
}

std::vector<long> numbers_in(const std::string& version) {
  std::vector<long> numbers;
  for (std::size_t i = 0; i < version.size() && numbers.size() < 4;) {
    const auto is_digit = [&](std::size_t at) {
      return at < version.size() && version[at] >= '0' && version[at] <= '9';
    };
    if (!is_digit(i)) {
      if (!numbers.empty() && version[i] != '.') break;  // "1.3.0rc5" is 1.3.0
      ++i;
      continue;
    }
    long number = 0;
    for (; is_digit(i); ++i) number = std::min(number * 10 + (version[i] - '0'), 1'000'000'000L);
    numbers.push_back(number);
  }
  if (numbers.empty())
    throw InputError("version", "'" + version + "' holds no number", "a version such as 0.29 or b12191");
  return numbers;
}

}  // namespace

bool ServerTable::knows_flag(std::string_view flag) const { return contains(flags, flag); }

ServerTable read_server_table(const std::string& file) {
  const nlohmann::json document = read_json_file(file);
  const JsonFields fields(document, file);
  fields.only({"schema",
               "server",
               "name",
               "spellings",
               "version",
               "source",
               "not_read",
               "device",
               "command",
               "help",
               "image",
               "model",
               "served_name",
               "listen",
               "port",
               "config_flag",
               "settings",
               "flags_complete",
               "flags",
               "short_flags",
               "removed_flags",
               "rejected_flags",
               "deprecated_flags",
               "environment",
               "config_keys",
               "values"});
  fields.integer("schema", 1, 1);
  ServerTable table;
  table.server = fields.text("server");
  table.name = fields.text("name");
  table.spellings = texts_or_none(fields, "spellings");
  table.version = fields.text("version");
  table.source = fields.text("source");
  table.not_read = texts_or_none(fields, "not_read");
  table.device = fields.text("device");
  table.command = texts_or_none(fields, "command");
  table.help = texts_or_none(fields, "help");
  if (table.command.empty() || table.help.empty())
    refuse(fields.place("command"), "nothing", "words of a command");
  table.image = fields.text("image");
  table.model = texts_or_none(fields, "model");
  table.served_name = texts_or_none(fields, "served_name");
  table.listen = texts_or_none(fields, "listen");
  table.port = static_cast<int>(fields.integer("port", 1, 65535));
  table.config_flag = fields.text_or("config_flag", "");
  read_lists(table, fields);
  const JsonFields settings(fields.object("settings"), fields.place("settings"));
  for (const auto& [setting, rules] : fields.object("settings").items())
    for_each_object(settings, setting,
                    [&](const JsonFields& rule) { table.settings[setting].push_back(rule_from(rule)); });
  for (const std::vector<std::string>* const arguments : {&table.model, &table.served_name, &table.listen})
    check_arguments(table, fields.where(), *arguments);
  for (const auto& [setting, rules] : table.settings)
    for (std::size_t i = 0; i < rules.size(); ++i)
      check_rule(table, settings.place(setting) + "[" + std::to_string(i) + "]", rules[i]);
  return table;
}

std::vector<ServerTable> read_server_tables(const std::string& folder) {
  std::vector<std::string> files;
  if (!folder.empty())
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".json") && !name.ends_with(".schema.json") && name != "names.json")
        files.push_back(entry.path().string());
    }
  if (files.empty())
    throw InputError("server tables", folder.empty() ? "no folder" : "none in " + folder,
                     "MOETUNE_DATA=FOLDER, set to one whose server_flags/ holds them");
  std::ranges::sort(files);
  std::vector<ServerTable> tables;
  for (const std::string& file : files) tables.push_back(read_server_table(file));
  return tables;
}

const ServerTable& server_named(const std::vector<ServerTable>& tables, const std::string& flag,
                                const std::string& name) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string accepted;
  for (const ServerTable& table : tables) {
    if (contains(table.spellings, lower)) return table;
    accepted += (accepted.empty() ? "" : ", ") + table.server;
  }
  throw InputError(flag, name.empty() ? "not given" : "'" + name + "'", accepted);
}

bool is_older(const std::string& first, const std::string& second) {
  return numbers_in(first) < numbers_in(second);
}

}  // namespace moetune
