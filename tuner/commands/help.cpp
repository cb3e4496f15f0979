#include "tuner/commands/help.h"

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

#include "tuner/commands/table.h"

namespace moetune {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t second_column = 28;

// "  name<padding>what it is"; a name too long for its column has a line of its own.
std::string two_columns(const std::string& name, const std::string& meaning) {
  std::string text = "  " + name;
  if (meaning.empty()) return text + "\n";
  if (text.size() + 2 > second_column)
    text += '\n' + std::string(second_column, ' ');
  else
    text.resize(second_column, ' ');
  return text + wrapped(meaning, width, second_column) + "\n";
}

std::string reflowed(const std::string& text) {
  std::string result;
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) result += wrapped(paragraph, width, 0) + "\n";
    paragraph.clear();
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ') {
      paragraph += line + " ";
      continue;
    }
    end_paragraph();
    result += line + "\n";
  }
  end_paragraph();
  return result;
}

// CLI11 ends a group with a blank line and begins the next one with another.
std::string with_single_blank_lines(std::string text) {
  for (auto found = text.find("\n\n\n"); found != std::string::npos; found = text.find("\n\n\n", found))
    text.erase(found, 1);
  return text;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override {
    return with_single_blank_lines(CLI::Formatter::make_help(command, std::move(name), mode));
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return two_columns(make_option_name(option, is_positional) + make_option_opts(option),
                       make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return two_columns(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* command) const override {
    return reflowed(command->get_description()) + "\n";
  }
  std::string make_footer(const CLI::App* command) const override { return reflowed(command->get_footer()); }
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace moetune
