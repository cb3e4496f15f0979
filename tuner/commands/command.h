// One subcommand: its options, and what it does. Every file of this folder that is named after a
// subcommand defines one add_..._command(); command_line.cpp lists them all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/facts/error.h"
#include "tuner/commands/options.h"

namespace moetune {

struct Command {
  CLI::App* options = nullptr;
  std::function<ExitCode()> run;
  std::vector<CLI::Option*> testing_options = {};  // shown by --help-all only
};

// command_line: as typed, for "how to reproduce" in reports.
Command add_tune_command(CLI::App& program, const std::vector<std::string>& command_line);
Command add_ci_command(CLI::App& program, const std::vector<std::string>& command_line);
Command add_measure_command(CLI::App& program);
Command add_logits_command(CLI::App& program);
Command add_trace_command(CLI::App& program);
Command add_tax_command(CLI::App& program);
Command add_doctor_command(CLI::App& program);
Command add_report_command(CLI::App& program);
Command add_compare_command(CLI::App& program);
Command add_list_command(CLI::App& program);
Command add_validate_command(CLI::App& program);
Command add_export_command(CLI::App& program);
Command add_confirm_command(CLI::App& program);
// program: complete before either of them runs.
Command add_man_command(CLI::App& program);          // prints the man page
Command add_completions_command(CLI::App& program);  // prints completions for a shell
Command add_worker_command(CLI::App& program);       // hidden: `tune` and `measure` start it
Command add_gpu_probe_command(CLI::App& program);    // hidden: prints what GPU is here, for choose_device()

// Those of the contract that this build does not have: they say so.
std::vector<Command> add_later_commands(CLI::App& program);

}  // namespace moetune
