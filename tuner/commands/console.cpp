#include "tuner/commands/console.h"

#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace moetune {

void Console::log(const std::string& line) const {
  if (!quiet) fmt::print(stderr, "{}\n", line);
}

void Console::warn(const std::string& line) const { fmt::print(stderr, "{}\n", line); }

void Console::result(const std::string& text) const {
  if (!json) fmt::print("{}\n", text);
}

void Console::document(const nlohmann::json& document) const {
  if (json) fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace moetune
