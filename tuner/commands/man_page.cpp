// The man page of completions.h, in roff(7).
#include <algorithm>
#include <cctype>

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

std::string roff_option(const OptionFacts& option) {
  const std::string name =
      option.flags.empty() ? option.place : fmt::format("{}", fmt::join(option.flags, ", "));
  std::string text = ".TP\n\\fB" + roff(name) + "\\fR";
  if (!option.flags.empty() && !option.type.empty()) text += " \\fI" + roff(option.type) + "\\fR";
  return text + "\n" + roff(option.help) + "\n";
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
  for (const CommandFacts& command : commands)
    text += ".TP\n\\fBmoetune " + roff(command.name) + "\\fR\n" + roff(command.summary) + "\n";
  for (const CommandFacts& command : commands) {
    std::string heading = command.name;
    std::ranges::transform(heading, heading.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    text +=
        ".SH " + roff(heading) + "\n" + roff(command.summary) + "\n.PP\n" + roff_paragraphs(command.footer);
    for (const OptionFacts& option : command.options) text += roff_option(option);
  }
  return text + ".SH EXIT STATUS AND FIRST STEPS\n" + roff_paragraphs(program.get_footer());
}

}  // namespace moetune
