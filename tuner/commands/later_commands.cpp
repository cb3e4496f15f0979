// The commands of the contract that this build does not have yet: they stand in --help, and say so when asked for.
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
    LaterCommand{"tax", "Where a token's time goes, against a dense baseline of the same active size"},
    LaterCommand{"replay", "Race searchers on a recorded table of trials"},
    LaterCommand{"export", "A profile as launch flags of a server"},
    LaterCommand{"compare", "Profiles of several boxes or models side by side"},
    LaterCommand{"ci", "Nightly: check a fresh run against a baseline profile"},
    LaterCommand{"doctor", "What this box is and what is wrong with it"},
    LaterCommand{"confirm", "Measure a running server with a workload; confirm or refute a profile"},
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
                                           "tune, measure, logits, trace, report, list, validate");
                        }});
  }
  return commands;
}

}  // namespace moetune
