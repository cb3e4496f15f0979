// The man page of completions.h, in roff(7).
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/commands/completions.h"

namespace moetune {
namespace {

// roff: a line must not begin with a control character, and backslashes and dashes are themselves.
std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += std::string("\\&") + c;
    else
      result += c;
  }
  return result;
}

std::string term_of(const std::string& term, const std::string& meaning) {
  return ".TP\n\\fB" + roff(term) + "\\fR\n" + roff(meaning) + "\n";
}

// What acts on every command, and what they leave behind.
constexpr std::array<std::pair<const char*, const char*>, 3> environment{
    {{"NO_COLOR", "Set to anything: no colour on a terminal."},
     {"XDG_CACHE_HOME",
      "Where moetune/ keeps reference answers of models, and experts that do not fit into memory; "
      "~/.cache where it is not set."},
     {"MOETUNE_DATA",
      "Folder with models/, search_spaces/, profiles/ and server_flags/, in place of those beside the "
      "program."}}};
constexpr std::array<std::pair<const char*, const char*>, 2> files{
    {{"runs/", "Run directories, in the folder where tune was started; runs/latest is the newest."},
     {"profiles/", "Registry of profiles, prices and hardware; see 'moetune list profiles'."}}};

std::string roff_option(const OptionFacts& option) {
  const std::string name =
      option.flags.empty() ? option.place : fmt::format("{}", fmt::join(option.flags, ", "));
  std::string text = ".TP\n\\fB" + roff(name) + "\\fR";
  if (!option.type.empty()) text += " \\fI" + roff(option.type) + "\\fR";
  text += "\n" + roff(option.help);
  if (!option.value.empty()) text += roff(" (default: " + option.value + ")");
  return text + "\n";
}

// A footer's indented lines are examples.
std::string roff_paragraphs(const std::string& text) {
  std::string result;
  bool in_example = false;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    const bool is_example = line.starts_with(' ');
    if (is_example != in_example) result += is_example ? ".nf\n" : ".fi\n";
    in_example = is_example;
    result += line.empty() ? ".PP\n" : roff(line) + "\n";
    start = end + 1;
  }
  return result + (in_example ? ".fi\n" : "");
}

}  // namespace

std::string man_page(const CLI::App& program, const std::string& version) {
  const std::vector<CommandFacts> commands = command_facts(program);
  std::string text =
      ".TH MOETUNE 1 \"\" \"" + roff(version) +
      "\" \"User Commands\"\n.SH NAME\nmoetune \\- autotuner for serving Mixture\\-of\\-Experts models\n";
  text += ".SH SYNOPSIS\n\\fBmoetune\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n" +
          roff_paragraphs(program.get_description()) + ".SH COMMANDS\n";
  for (const CommandFacts& command : commands) text += term_of("moetune " + command.name, command.summary);
  for (const CommandFacts& command : commands) {
    std::string heading = command.name;
    std::ranges::transform(heading, heading.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    text +=
        ".SH " + roff(heading) + "\n" + roff(command.summary) + "\n.PP\n" + roff_paragraphs(command.footer);
    for (const OptionFacts& option : command.options) text += roff_option(option);
  }
  const std::string footer = program.get_footer();
  const std::size_t first_end = std::min(footer.find("\n\n"), footer.size());
  text += ".SH EXIT STATUS\n" + roff_paragraphs(footer.substr(0, first_end)) + "\n.SH ENVIRONMENT\n";
  for (const auto& [name, use] : environment) text += term_of(name, use);
  text += ".SH FILES\n";
  for (const auto& [name, use] : files) text += term_of(name, use);
  return text + ".SH NOTES\n" + roff_paragraphs(footer.substr(std::min(first_end + 2, footer.size())));
}

}  // namespace moetune
