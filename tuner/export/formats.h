// A server command as text: for a shell, as JSON or YAML, for Docker Compose and for Kubernetes. Start at
// export_text(). Whatever stands in names and paths is inert in each: quoted for the shell, escaped in JSON
// and YAML, and where a `$` would be expanded by what reads the file (Compose, Kubernetes), doubled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tuner/export/translate.h"

namespace moetune {

enum class ExportFormat : std::uint8_t { shell, json, yaml, compose, k8s };
std::vector<std::string> export_format_names();
ExportFormat export_format_named(const std::string& flag, const std::string& name);  // throws InputError

// What containers need beside the command.
struct ContainerFacts {
  std::string image;
  std::vector<std::string> listen;  // arguments, to be reached from outside
  int port = 0;
  int gpus = 0;                      // 0: none is asked for
  std::vector<std::string> folders;  // of this machine, mounted read-only at the same place
  std::string name;                  // of service and deployment: lower-case letters, digits, dashes
};

// The whole, as --json and --format json give it.
nlohmann::ordered_json export_document(const ServerCommand& command);

std::string export_text(const ServerCommand& command, ExportFormat format, const ContainerFacts& container);

}  // namespace moetune
