#include "tuner/export/help_check.h"

#include <cctype>

#include "tuner/export/claims.h"

namespace moetune {
namespace {

bool is_flag_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

}  // namespace

std::set<std::string> flags_in_help(std::string_view help) {
  std::set<std::string> flags;
  for (std::size_t i = help.find("--"); i != std::string_view::npos; i = help.find("--", i)) {
    std::size_t end = i;
    while (end < help.size() && is_flag_letter(help[end])) ++end;
    const bool begins_a_word = i == 0 || !is_flag_letter(help[i - 1]);
    const std::string_view word = help.substr(i, end - i);
    if (begins_a_word && word.size() > 2 && std::isalnum(static_cast<unsigned char>(word[2])) != 0)
      flags.insert(plain_flag(std::string(word)));
    i = end;
  }
  return flags;
}

HelpCheck check_against(ServerCommand& command, const std::set<std::string>& known) {
  HelpCheck result;
  for (ExportLine& line : command.lines)
    for (const std::string& word : line.arguments) {
      if (!word.starts_with("--")) continue;
      const bool is_known = known.contains(plain_flag(word));
      (is_known ? result.accepted : result.refused) += 1;
      line.checked += (line.checked.empty() ? "" : "; ") + word +
                      (is_known ? " stands in the server's --help" : " is NOT in the server's --help");
    }
  return result;
}

}  // namespace moetune
