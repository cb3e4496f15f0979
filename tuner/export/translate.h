// A profile in a server's words. Start at translate(): every knob of the profile becomes a line, is what the
// server does anyway, or has no equivalent there; none is dropped. What the tables say stands in
// server_table.h; formats.h prints the result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/launch_profile.h"
#include "tuner/export/knob_names.h"
#include "tuner/export/server_table.h"

namespace moetune {

// What is known about the profile's model beside its name.
struct ExportModel {
  std::string architecture;  // "Qwen3MoeForCausalLM"
  int experts = 0;           // per layer that routes
  int routing_layers = 0;
  int leading_dense_layers = 0;
  std::int64_t expert_bytes = 0;               // of one routed expert, in the type that the profile chose
  std::map<std::string, std::string> shipped;  // setting -> the model's own value
};

// What a person adds, by the option that gives it.
struct ExportInputs {
  std::map<std::string, std::string>
      given;  // "server_model" -> value of --server-model; gguf, kt_weights, kt_method, served_name
  std::string server_version;  // empty: the one of the table
  std::optional<ExportModel> model;
  bool take_nearest = false;  // puts nearest choices into the command
};

struct ExportLine {
  std::string knob;     // of the profile, or empty
  std::string setting;  // "router_top_k", "model", "max_model_len", ...
  std::string value;    // as the profile has it
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  nlohmann::json config = nullptr;
  std::string evidence;  // what the line rests on
  std::string note;
  std::string checked = "";  // what the installed server's --help says; empty: not asked
};

struct NoEquivalent {
  std::string knob;
  std::string setting;
  std::string value;
  std::string why;
  std::string nearest;                         // empty: none is known
  std::vector<std::string> nearest_arguments;  // empty: it is no matter of arguments
  std::string cost;
  bool taken = false;  // it stands in the command
};

// What the server does without being told.
struct Unsaid {
  std::string knob;
  std::string setting;
  std::string value;
  std::string why;
};

struct ServerCommand {
  std::string title;                 // "tiny-moe, workload chat, for vLLM"
  std::string caution;               // synthetic weights, folding: comes first everywhere; empty: none
  std::vector<std::string> remarks;  // versions, what was measured where
  std::vector<std::string> command;  // {"vllm", "serve"}
  std::vector<ExportLine> lines;
  std::vector<NoEquivalent> no_equivalent;
  std::vector<Unsaid> unsaid;
  std::string config_flag;

  std::vector<std::string> arguments() const;  // of all lines, without command and configuration file
  std::map<std::string, std::string> environment() const;
  nlohmann::json config() const;  // null: no configuration file is needed
};

// Throws InputError for what is missing, naming the option that gives it, and for texts that cannot stand in
// a command (NUL, invalid UTF-8).
ServerCommand translate(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
                        const ExportInputs& inputs);

}  // namespace moetune
