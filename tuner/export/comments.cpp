#include "tuner/export/comments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/report/escape.h"

namespace moetune {
namespace {

// What a line says to the server, in one piece.
std::string said(const ExportLine& line) {
  std::vector<std::string> parts;
  for (const auto& [variable, value] : line.environment) parts.push_back(variable + "=" + shell_word(value));
  if (!line.arguments.empty()) parts.push_back(words_for_shell(line.arguments));
  if (!line.config.is_null()) parts.push_back(config_name + std::string(": ") + line.config.dump());
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string named(const std::string& knob, const std::string& setting, const std::string& value) {
  const std::string& name = knob.empty() ? setting : knob;
  return value.empty() ? name : name + "=" + value;
}

}  // namespace

std::string words_for_shell(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_word(word);
  return text;
}

std::vector<std::string> comments_of(const ServerCommand& command) {
  std::vector<std::string> text;
  if (!command.caution.empty()) text.push_back(command.caution);
  text.push_back("moetune export: " + command.title);
  text.insert(text.end(), command.remarks.begin(), command.remarks.end());
  text.emplace_back("What each line rests on:");
  for (const ExportLine& line : command.lines)
    text.push_back(fmt::format(
        "  {}: {}{}{}", said(line),
        line.knob.empty() ? "" : named(line.knob, line.setting, line.value) + ", ", line.evidence,
        (line.note.empty() ? "" : "; " + line.note) + (line.checked.empty() ? "" : "; " + line.checked)));
  if (!command.no_equivalent.empty()) text.emplace_back("No equivalent on this server:");
  for (const NoEquivalent& lost : command.no_equivalent) {
    std::string words = fmt::format("  {}: {}", named(lost.knob, lost.setting, lost.value), lost.why);
    if (!lost.nearest.empty()) words += "; nearest: " + lost.nearest;
    if (!lost.nearest_arguments.empty()) words += " [" + words_for_shell(lost.nearest_arguments) + "]";
    if (!lost.cost.empty()) words += "; its cost: " + lost.cost;
    text.push_back(words + (lost.taken ? "; TAKEN (--nearest)" : ""));
  }
  if (!command.unsaid.empty()) text.emplace_back("Needs no flag:");
  for (const Unsaid& unsaid : command.unsaid)
    text.push_back(fmt::format("  {}: {}", named(unsaid.knob, unsaid.setting, unsaid.value), unsaid.why));
  return text;
}

}  // namespace moetune
