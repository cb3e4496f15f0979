// The commands of the contract that this build does not have yet: they stand in --help, and say so when asked
// for.
#include <array>
#include <string>

#include "tuner/commands/command.h"

namespace moetune {
namespace {

struct LaterCommand {
  const char* name;
  const char* summary;
};

constexpr std::array later_commands = {
    LaterCommand{"replay", "Race searchers on a recorded table of trials"},
    LaterCommand{"merge", "Join runs of several boxes, keyed by fingerprint"},
};

}  // namespace

std::vector<Command> add_later_commands(CLI::App& program) {
  std::vector<Command> commands;
  for (const LaterCommand& later : later_commands) {
    CLI::App& options = add_subcommand(program, later.name, later.summary, "", "Not in this build yet");
    take_any_words(options);  // whatever they are, the answer is the same
    const std::string name = later.name;
    commands.push_back({&options, [name]() -> ExitCode {
                          throw InputError(name, "this build does not have this command yet",
                                           "tune, measure, tax, ci, logits, trace, report, export, compare, "
                                           "confirm, doctor, list, validate");
                        }});
  }
  return commands;
}

}  // namespace moetune
