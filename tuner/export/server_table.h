// What one server accepts: its flags with their values, and how it is told each setting. One JSON file per
// server, tuner/export/flags/<server>.json (schema: server_flags.schema.json beside them), each with the
// version it was read from and where. Start at read_server_tables(); translate.h uses them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace moetune {

// How one setting is said, for the configurations that all conditions hold for. The first such rule is taken.
struct SettingRule {
  // Conditions; an empty one always holds.
  std::vector<std::string> when;     // the value is one of these
  std::string equals;                // the value is that of this other setting
  std::string divides;               // the value divides that of this other setting
  std::string not_below;             // the value is not below that of this other setting
  std::optional<bool> nesting;       // does the family keep its top-k in a part of its configuration?
  std::string device;                // cpu, gpu: what was measured on
  std::string since;                 // first version that has it
  std::vector<std::string> methods;  // --kt-method is one of these

  // What it comes to. Words in <angle brackets>: placeholders.h. All empty: the server does it anyway, note
  // says why.
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  nlohmann::json config = nullptr;  // merged into the server's configuration file
  std::string note;

  // Or there is no equivalent: why, the nearest choice and what that costs.
  std::string none;
  std::string nearest;
  std::vector<std::string> nearest_arguments;
  std::string cost;
};

struct ServerTable {
  std::string server;                  // "llama.cpp": also the name of the file
  std::string name;                    // "llama.cpp", "vLLM": for people
  std::vector<std::string> spellings;  // accepted by --server
  std::string version;                 // that the facts were read from
  std::string source;
  std::vector<std::string> not_read;
  std::string device;  // gpu: runs on one only; any

  std::vector<std::string> command;      // {"vllm", "serve"}
  std::vector<std::string> help;         // prints every flag
  std::string image;                     // container image, without a tag
  std::vector<std::string> model;        // arguments that name the model
  std::vector<std::string> served_name;  // arguments that name it for clients; empty: no such flag
  std::vector<std::string>
      listen;               // arguments for a container, to be reached from outside; empty: it is anyway
  int port = 0;             // in a container
  std::string config_flag;  // takes the configuration file; empty: there is none

  std::map<std::string, std::vector<SettingRule>> settings;

  bool flags_complete = false;  // does the list hold all that the version accepts?
  std::vector<std::string> flags;
  std::map<std::string, std::string> short_flags;          // "-tp" -> "--tensor-parallel-size"
  std::vector<std::string> removed_flags;                  // of earlier versions
  std::vector<std::string> rejected_flags;                 // known to the parser, which refuses them
  std::map<std::string, std::string> deprecated_flags;     // -> what replaces it
  std::vector<std::string> environment;                    // variables it reads
  std::vector<std::string> config_keys;                    // top-level keys of its configuration file
  std::map<std::string, std::vector<std::string>> values;  // flag -> what it accepts, where that is a list

  bool knows_flag(std::string_view flag) const;  // as it is written, dashes and underscores included
};

// Throws InputError naming file and field: also for a rule that uses a flag, value, variable or key that the
// table does not list.
ServerTable read_server_table(const std::string& file);
// Every server table of a folder, sorted by name. Throws InputError when there is none.
std::vector<ServerTable> read_server_tables(const std::string& folder);

// By any of its spellings. flag: the option that named it. Throws InputError with the accepted names.
const ServerTable& server_named(const std::vector<ServerTable>& tables, const std::string& flag,
                                const std::string& name);

// First is older than second, by the numbers in their texts: "b11480" < "b12191", "v0.10.0" < "0.29". Throws
// InputError for a text without a number.
bool is_older(const std::string& first, const std::string& second);

}  // namespace moetune
