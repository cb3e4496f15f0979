// Where a command's words go: results to stdout, everything else to stderr. With --json stdout holds one
// document only.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace moetune {

struct Console {
  bool json = false;
  bool quiet = false;

  void log(const std::string& line) const;              // stderr, unless quiet
  void warn(const std::string& line) const;             // stderr, always
  void result(const std::string& text) const;           // stdout, unless json; a line end is added
  void document(const nlohmann::json& document) const;  // stdout, only when json
};

}  // namespace moetune
