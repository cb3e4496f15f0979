// The program's command line: picks the subcommand, runs it, turns every failure into one message and an exit
// code.
#pragma once

namespace moetune {

// Returns the exit code (engine/facts/error.h).
int run_command_line(int argc, char** argv);

}  // namespace moetune
