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
                    .takes_file = false,
                    .listed = {}};
  for (const std::string& name : option.get_snames()) facts.flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.flags.push_back("--" + name);
  if (facts.flags.empty()) facts.place = option.get_name(true);
  if (option.get_items_expected_max() > 0) facts.type = option.get_type_name();
  facts.choices = words_of(facts.type);
  if (facts.choices.empty() && facts.flags.empty()) facts.choices = words_of(facts.help);
  for (const char* const word : {"DIR", "FILE", "PATH", "PROFILE"})
    facts.takes_file = facts.takes_file || facts.type.find(word) != std::string::npos;
  for (const std::string& name : facts.flags.empty() ? std::vector{facts.place} : facts.flags)
    if (facts.listed.kind.empty()) facts.listed = listed_values(name, facts.type);
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
  if (!option.listed.kind.empty())
    return fmt::format("_moetune_names{} {} {}", option.takes_file ? "_or_files" : "", option.listed.kind,
                       option.listed.suffix.empty() ? "none" : option.listed.suffix);
  return option.takes_file ? "_files" : "";
}

// What bash is to do at the place of the option's value. Names come before files: those of the folder are
// offered where no name begins as what was typed.
std::string bash_values(const OptionFacts& option) {
  if (!option.choices.empty())
    return "COMPREPLY=($(compgen -W '" + joined(option.choices) + "' -- \"$current\"))";
  if (!option.listed.kind.empty())
    return fmt::format("{}COMPREPLY=($(compgen {}-W \"$(_moetune_names {})\" -- \"$current\"))",
                       !option.listed.suffix.empty() ? "compopt -o nospace; "
                       : option.takes_file           ? "compopt -o default; "
                                                     : "",
                       option.listed.suffix.empty() ? "" : "-S '" + option.listed.suffix + "' ",
                       option.listed.kind);
  return option.takes_file ? "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\"))" : ":";
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
      "_moetune_names() { \"${COMP_WORDS[0]}\" list \"$1\" --names 2> /dev/null; }\n"
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
    std::string at_its_place = ":";
    text += "    " + command.name + ")\n      case $previous in\n";
    for (const OptionFacts& option : command.options) {
      flags.insert(flags.end(), option.flags.begin(), option.flags.end());
      if (option.flags.empty())
        at_its_place = bash_values(option);
      else if (!option.type.empty())
        text += fmt::format("        {}) {}; return ;;\n", fmt::join(option.flags, "|"), bash_values(option));
    }
    text += "      esac\n      if [[ $current == -* ]]; then COMPREPLY=($(compgen -W '" + joined(flags) +
            "' -- \"$current\"))\n      else " + at_its_place + "\n";
    text += "      fi ;;\n";
  }
  return text + "  esac\n}\ncomplete -F _moetune moetune\n";
}

std::string zsh_completions(const std::vector<CommandFacts>& commands) {
  std::string text =
      "#compdef moetune\n# zsh completions of moetune, printed by 'moetune completions zsh'.\n"
      // The last two words are ours; those before them are what _arguments wants compadd to be told.
      "_moetune_names() {\n  local -a names ending\n"
      "  names=(${(f)\"$(moetune list $argv[-2] --names 2> /dev/null)\"})\n"
      "  [[ $argv[-1] == none ]] || ending=(-S $argv[-1])\n"
      "  compadd \"${@[1,-3]}\" $ending -a names\n}\n"
      "_moetune_names_or_files() { _moetune_names \"$@\"; _files \"${@[1,-3]}\"; }\n"
      "_moetune() {\n  local -a commands\n  commands=(\n";
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
      if (!option.listed.kind.empty())
        line += fmt::format(
            " -a '(moetune list {} --names 2> /dev/null{})'", option.listed.kind,
            option.listed.suffix.empty() ? "" : " | string replace -r \\$ " + option.listed.suffix);
      if (!option.type.empty() && !option.flags.empty())
        line += option.takes_file ? " -r -F" : " -x";
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
