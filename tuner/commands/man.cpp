// moetune man, moetune completions: what the program's own options say, for man(1) and for shells. `make
// install` puts them in place.
#include <memory>
#include <string>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "moetune/build_info.h"
#include "tuner/commands/command.h"
#include "tuner/commands/completions.h"

namespace moetune {

Command add_man_command(CLI::App& program) {
  CLI::App& command = add_subcommand(program, "man", "Print the man page", "  moetune man | man -l -");
  return {&command, [&program] {
            fmt::print("{}", man_page(program, fmt::format("moetune {}", build_info::version)));
            return ExitCode::done;
          }};
}

Command add_completions_command(CLI::App& program) {
  auto shell = std::make_shared<std::string>();
  CLI::App& command = add_subcommand(program, "completions", "Print completions for a shell",
                                     "  source <(moetune completions bash)");
  required(add_text_option(command, "SHELL", *shell, "bash|zsh|fish", "Whose completions"));
  return {&command, [shell, &program] {
            const std::vector<CommandFacts> commands = command_facts(program);
            if (*shell == "bash")
              fmt::print("{}", bash_completions(commands));
            else if (*shell == "zsh")
              fmt::print("{}", zsh_completions(commands));
            else if (*shell == "fish")
              fmt::print("{}", fish_completions(commands));
            else
              throw InputError("completions", "'" + *shell + "'", "bash, zsh, fish");
            return ExitCode::done;
          }};
}

}  // namespace moetune
