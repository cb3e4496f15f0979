// Man page and shell completions, made from the program's own options, so that they cannot say anything else.
// Start at man_page().
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tuner/commands/completion_values.h"

namespace moetune {

// What completions and man page need of one option.
struct OptionFacts {
  std::vector<std::string> flags;  // "--json", "-h"; empty: a word by its place
  std::string place;               // "RUN": of a word by its place
  std::string type;                // "lossless|int8|int4|none", "DIR"; empty: a flag without a value
  std::string help;
  std::string value;                 // that it has when it is not given; empty: none, or the help says it
  std::vector<std::string> choices;  // where the type or the help is a list of words
  bool takes_file = false;
  ListedValues listed = {};  // words that 'moetune list' knows at the time
};

struct CommandFacts {
  std::string name;
  std::string summary;
  std::string footer;
  std::vector<OptionFacts> options;
};

// Commands and options that stand in --help, in its order.
std::vector<CommandFacts> command_facts(const CLI::App& program);

std::string man_page(const CLI::App& program, const std::string& version);
std::string bash_completions(const std::vector<CommandFacts>& commands);
std::string zsh_completions(const std::vector<CommandFacts>& commands);
std::string fish_completions(const std::vector<CommandFacts>& commands);

}  // namespace moetune
