#include "tuner/export/given_text.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/printable.h"

namespace moetune {

void check_text(const std::string& where, const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw InputError(where, "a NUL character", "a text that can be an argument of a program");
  try {
    (void)nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InputError(where, "'" + printable(text) + "' is not UTF-8", "UTF-8");
  }
}

void check_given(const std::string& name, const std::string& text) {
  std::string option = "--" + name;
  std::ranges::replace(option, '_', '-');
  check_text(option, text);
  if (text.starts_with('-'))
    throw InputError(option,
                     "'" + printable(text) + "' begins with a dash: a server would take it for a flag",
                     "a path may begin with ./");
}

}  // namespace moetune
