#include "tuner/commands/completions.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/report/escape.h"

namespace moetune {
namespace {

// "lossless|int8|int4|none" or "models | spaces | knobs": words that can be offered. Empty where it is no
// such list.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == '|')
      words.emplace_back();
    else if (c != ' ')
      words.back() += c;
  }
  const auto is_word = [](const std::string& word) {
    return !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
      return std::islower(c) || std::isdigit(c) || c == '-' || c == '_';
    });
  };
  // Blanks are for the list's bars alone.
  const auto blanks = std::ranges::count(text, ' ');
  if (words.size() < 2 || blanks > 2 * (static_cast<std::ptrdiff_t>(words.size()) - 1) ||
      !std::ranges::all_of(words, is_word))
    return {};
  return words;
}

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts{.flags = {},
                    .place = "",
                    .type = "",
                    .help = option.get_description(),
                    .value = option.get_default_str(),
                    .choices = {},
                    .takes_file = false};
  for (const std::string& name : option.get_snames()) facts.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.flags.push_back("--" + name);
  if (facts.flags.empty()) facts.place = option.get_name(true);
  if (option.get_items_expected_max() > 0) facts.type = option.get_type_name();
  facts.choices = words_of(facts.type);
  if (facts.choices.empty() && facts.flags.empty()) facts.choices = words_of(facts.help);
  for (const char* const word : {"DIR", "FILE", "PATH"})
    facts.takes_file = facts.takes_file || facts.type.find(word) != std::string::npos;
  return facts;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// One line of help for a menu: its first sentence.
std::string brief(const std::string& help) {
  return help.substr(0, std::min(help.find_first_of(";.\n"), help.size()));
}

// Within single quotes of zsh's _arguments, where colons and brackets have a meaning too.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else if (c == ':' || c == '[' || c == ']' || c == '\\')
      result += std::string("\\") + c;
    else
      result += c;
  }
  return result;
}

std::string zsh_values(const OptionFacts& option) {
  if (!option.choices.empty()) return "(" + joined(option.choices) + ")";
  return option.takes_file ? "_files" : "";
}

}  // namespace

std::vector<CommandFacts> command_facts(const CLI::App& program) {
  std::vector<CommandFacts> commands;
  for (const CLI::App* const command : program.get_subcommands({})) {
    if (command->get_group().empty() || command->get_prefix_command())
      continue;  // hidden, or of a later build
    CommandFacts facts{.name = command->get_name(),
                       .summary = command->get_description(),
                       .footer = command->get_footer(),
                       .options = {}};
    for (const CLI::Option* const option : command->get_options())
      if (!option->get_group().empty()) facts.options.push_back(facts_of(*option));
    commands.push_back(std::move(facts));
  }
  return commands;
}

std::string bash_completions(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> names;
  for (const CommandFacts& command : commands) names.push_back(command.name);
  std::string text =
      "# bash completions of moetune, printed by 'moetune completions bash'.\n"
      "_moetune() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} "
      "command=${COMP_WORDS[1]}\n"
      "  COMPREPLY=()\n"
      "  if [[ $COMP_CWORD == 1 ]]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      joined(names) +
      " --help --version' -- \"$current\"))\n    return\n  fi\n"
      "  case $command in\n";
  for (const CommandFacts& command : commands) {
    std::vector<std::string> flags;
    std::vector<std::string> words;
    bool word_is_file = false;
    text += "    " + command.name + ")\n      case $previous in\n";
    for (const OptionFacts& option : command.options) {
      flags.insert(flags.end(), option.flags.begin(), option.flags.end());
      if (option.flags.empty()) {
        words.insert(words.end(), option.choices.begin(), option.choices.end());
        word_is_file = word_is_file || option.takes_file;
      } else if (!option.type.empty()) {
        const std::string reply =
            !option.choices.empty()
                ? "COMPREPLY=($(compgen -W '" + joined(option.choices) + "' -- \"$current\"))"
            : option.takes_file ? "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\"))"
                                : ":";
        text += fmt::format("        {}) {}; return ;;\n", fmt::join(option.flags, "|"), reply);
      }
    }
    text += "      esac\n      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W '" + joined(flags) +
            "' -- \"$current\"))\n";
    if (!words.empty())
      text += "      else COMPREPLY=($(compgen -W '" + joined(words) + "' -- \"$current\"))\n";
    else if (word_is_file)
      text += "      else compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\"))\n";
    text += "      fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -F _moetune moetune\n";
}

std::string zsh_completions(const std::vector<CommandFacts>& commands) {
  std::string text =
      "#compdef moetune\n# zsh completions of moetune, printed by 'moetune completions zsh'.\n_moetune() {\n "
      " local -a commands\n  commands=(\n";
  for (const CommandFacts& command : commands)
    text += "    '" + zsh_text(command.name) + ":" + zsh_text(command.summary) + "'\n";
  text +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n  local "
      "command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const CommandFacts& command : commands) {
    text += "    " + command.name + ")\n      _arguments \\\n";
    std::string lines;
    for (const OptionFacts& option : command.options) {
      const std::string values =
          option.type.empty() && !option.flags.empty()
              ? ""
              : ":" + zsh_text(option.type.empty() ? option.place : option.type) + ":" + zsh_values(option);
      if (option.flags.empty())
        lines += fmt::format("        '::{}:{}' \\\n", zsh_text(option.place), zsh_values(option));
      for (const std::string& flag : option.flags)
        lines += fmt::format("        '{}[{}]{}' \\\n", flag, zsh_text(brief(option.help)), values);
    }
    text += lines.substr(0, lines.size() - std::min<std::size_t>(3, lines.size())) + " ;;\n";
  }
  return text + "  esac\n}\n_moetune \"$@\"\n";
}

std::string fish_completions(const std::vector<CommandFacts>& commands) {
  std::string text =
      "# fish completions of moetune, printed by 'moetune completions fish'.\ncomplete -c moetune -f\n";
  for (const CommandFacts& command : commands)
    text += fmt::format("complete -c moetune -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        shell_word(command.summary));
  for (const CommandFacts& command : commands)
    for (const OptionFacts& option : command.options) {
      std::string line = fmt::format("complete -c moetune -n '__fish_seen_subcommand_from {}'", command.name);
      for (const std::string& flag : option.flags)
        line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
      if (!option.choices.empty()) line += fmt::format(" -a '{}'", joined(option.choices));
      if (!option.type.empty() && !option.flags.empty())
        line += option.takes_file ? " -r -F" : " -r";
      else if (option.takes_file)
        line += " -F";
      if (!option.help.empty()) {
        std::string help = brief(option.help);
        std::erase(help, '\\');  // fish reads \' within single quotes
        std::ranges::replace(help, '\'', '`');
        line += " -d '" + help + "'";
      }
      text += line + "\n";
    }
  return text;
}

}  // namespace moetune
