// The program `moetune`. Its subcommands are the files of tuner/commands/; start at command_line.cpp.
#include "tuner/commands/command_line.h"

int main(int argc, char** argv) { return moetune::run_command_line(argc, argv); }
