#include "tuner/commands/usage.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/commands/nearest.h"

namespace moetune {
namespace {

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> flag_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

[[noreturn]] void refuse(const std::string& where, const std::string& word, const std::string& kind,
                         const std::vector<std::string>& accepted) {
  const std::string found = "unknown " + kind + " '" + word + "'";
  const std::string closest = nearest(word, accepted);
  if (!closest.empty()) throw InputError(where, found + ", did you mean " + closest + "?", "");
  throw InputError(where, found, fmt::format("{}", fmt::join(accepted, ", ")));
}

}  // namespace

void refuse_unknown_words(const CLI::App& program) {
  const auto unknown_commands = program.remaining();
  if (!unknown_commands.empty()) {
    const std::string& word = unknown_commands.front();
    if (word.starts_with('-')) refuse("command line", word, "flag", flag_names(program));
    if (word == "help") throw InputError("command line", "unknown command 'help', did you mean --help?", "");
    refuse("command line", word, "command", command_names(program));
  }
  for (const CLI::App* command : program.get_subcommands()) {
    const auto unknown = command->remaining();
    if (unknown.empty() || command->get_prefix_command()) continue;  // the latter takes any words
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const std::string where = command->get_name();
    if (word.starts_with('-')) refuse(where, word, "flag", flag_names(*command));
    throw InputError(where, "nothing takes the word '" + word + "'",
                     "the options of 'moetune " + command->get_name() + " --help'");
  }
}

namespace {

// "SHELL is required" -> what it is, as --help has it.
std::string missing(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : program.get_subcommands())
    for (const CLI::Option* option : command->get_options())
      if (option->get_name() == name)
        return command->get_name() + ": " + name + " is not given (accepted: " + option->get_type_name() +
               ": " + option->get_description() + ")";
  return name + " is not given";
}

}  // namespace

std::string message_of(const CLI::App& program, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return missing(program, text.substr(0, text.find(" is required")));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string flag = text.substr(0, text.find(':'));
    if (text.find(" required ") != std::string::npos && text.find("missing") != std::string::npos)
      return flag + ": its value is missing (a value that starts with '-' is written " + flag + "=VALUE)";
    return flag + ": given with more or fewer values than it takes (accepted: one, once)";
  }
  // "Could not convert: --json = maybe": only flags, as every other value is read by a parser of ours.
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const std::string flag = text.substr(std::min(text.find("--"), text.size()));
    const auto value = flag.find(" = ");
    if (value != std::string::npos)
      return flag.substr(0, value) + ": '" + flag.substr(value + 3) +
             "' (accepted: no value, it is on where it is given)";
  }
  return text;
}

}  // namespace moetune
