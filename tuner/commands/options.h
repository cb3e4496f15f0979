// Adding a subcommand and its options. CLI11 stays behind this header: its own cost every file that includes
// them 4 to 12 seconds of compile time. Only options.cpp, help.cpp, usage.cpp and command_line.cpp include
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moetune {

// group: heading in --help; "" hides it.
CLI::App& add_subcommand(CLI::App& program, const std::string& name, const std::string& summary,
                         const std::string& footer = "", const std::string& group = "Subcommands");
// Takes any words and reads none of them.
void take_any_words(CLI::App& command);

// type: what stands behind the flag in --help. A name without dashes is a word by its place. What the value
// holds now is shown as the default.
CLI::Option* add_text_option(CLI::App& command, const std::string& flag, std::string& value,
                             const std::string& type, const std::string& help);
// Given any number of times.
CLI::Option* add_repeated_option(CLI::App& command, const std::string& flag, std::vector<std::string>& values,
                                 const std::string& type, const std::string& help);
// Any number of words by their place.
CLI::Option* add_words_option(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                              const std::string& type, const std::string& help);
CLI::Option* add_flag(CLI::App& command, const std::string& flag, bool& value, const std::string& help,
                      const std::string& group = "Options");
// read is called with the text that was given, and may throw InputError.
CLI::Option* add_read_option(CLI::App& command, const std::string& flag,
                             std::function<void(const std::string&)> read, const std::string& type,
                             const std::string& help, const std::string& shown_default = "");
// An option whose text is read by a parser of ours: parse(flag, text) may throw InputError.
template <class Value, class Parse>
CLI::Option* add_parsed_option(CLI::App& command, const std::string& flag, Value& value, Parse parse,
                               const std::string& type, const std::string& help,
                               const std::string& shown_default = "") {
  return add_read_option(
      command, flag,
      [&value, parse, flag](const std::string& text) { value = static_cast<Value>(parse(flag, text)); }, type,
      help, shown_default);
}

CLI::Option* required(CLI::Option* option);
CLI::Option* hidden(CLI::Option* option);  // from --help; --help-all shows the testing options of a command

}  // namespace moetune
