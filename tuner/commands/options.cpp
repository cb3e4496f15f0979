#include "tuner/commands/options.h"

#include <utility>

#include <CLI/CLI.hpp>

namespace moetune {

CLI::App& add_subcommand(CLI::App& program, const std::string& name, const std::string& summary,
                         const std::string& footer, const std::string& group) {
  return *program.add_subcommand(name, summary)->footer(footer)->group(group);
}

void take_any_words(CLI::App& command) { command.allow_extras()->prefix_command(); }

CLI::Option* add_text_option(CLI::App& command, const std::string& flag, std::string& value,
                             const std::string& type, const std::string& help) {
  CLI::Option* const option = command.add_option(flag, value, help)->type_name(type)->capture_default_str();
  // `--prices "$PRICES"` of a variable that is not set must not pass for the option left out.
  if (flag.starts_with('-'))
    option->check([type](const std::string& text) {
      return text.empty() ? "'' (accepted: " + type + ")" : std::string();
    });
  return option;
}

CLI::Option* add_repeated_option(CLI::App& command, const std::string& flag, std::vector<std::string>& values,
                                 const std::string& type, const std::string& help) {
  return command.add_option(flag, values, help)
      ->type_name(type)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_words_option(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                              const std::string& type, const std::string& help) {
  return command.add_option(name, values, help)->type_name(type);
}

CLI::Option* add_flag(CLI::App& command, const std::string& flag, bool& value, const std::string& help,
                      const std::string& group) {
  return command.add_flag(flag, value, help)->group(group);
}

CLI::Option* add_read_option(CLI::App& command, const std::string& flag,
                             std::function<void(const std::string&)> read, const std::string& type,
                             const std::string& help, const std::string& shown_default) {
  return command.add_option_function<std::string>(flag, std::move(read), help)
      ->type_name(type)
      ->default_str(shown_default);
}

CLI::Option* required(CLI::Option* option) { return option->required(); }

CLI::Option* hidden(CLI::Option* option) { return option->group(""); }

}  // namespace moetune
