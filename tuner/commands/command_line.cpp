#include "tuner/commands/command_line.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "moetune/build_info.h"
#include "tuner/commands/command.h"
#include "tuner/commands/console.h"
#include "tuner/commands/help.h"
#include "tuner/commands/refusal.h"
#include "tuner/commands/usage.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr auto footer =
    "Exit codes: 0 done, 1 our fault, 2 usage or bad input, 3 regression, 4 no feasible configuration, 5 "
    "indeterminate, "
    "6 not comparable, 130 interrupted with state saved.\n\n"
    "Start with 'moetune tune': it needs no options, and tunes the embedded model on this machine.";

std::string version_text() {
  return fmt::format(
      "moetune {} ({}, {}, {}, {})", build_info::version, build_info::commit, build_info::build_type,
      build_info::compiler,
      build_info::has_cuda ? fmt::format("CUDA {}", build_info::cuda_version) : std::string("CPU only"));
}

void print_line(std::FILE* stream, const std::string& text) { fmt::print(stream, "{}\n", text); }

ExitCode fail(ExitCode code, const std::string& message) {
  std::fflush(stdout);
  print_line(stderr, "moetune: " + printable_lines(message));  // names of fields and files may hold anything
  return code;
}

// `--explain --some-flag`: the value of this option is a flag of another program, which CLI11 would take for
// one of ours.
std::vector<std::string> with_flag_values(const std::vector<std::string>& words, const std::string& option) {
  std::vector<std::string> joined;
  for (const std::string& word : words) {
    if (!joined.empty() && joined.back() == option && word.starts_with('-'))
      joined.back() += "=" + word;
    else
      joined.push_back(word);
  }
  return joined;
}

// --help-all is --help plus the options that only tests need.
void add_help_all(Command& command) {
  CLI::App* options = command.options;
  const auto testing_options = command.testing_options;
  options->set_help_all_flag();  // CLI11's own would print the help of sub-subcommands, which we do not have
  options
      ->add_flag_callback(
          "--help-all",
          [options, testing_options] {
            for (CLI::Option* option : testing_options) option->group("Testing");
            throw CLI::CallForHelp();
          },
          "Print this help and the options that only tests need, and exit")
      ->trigger_on_parse();
}

// From the words themselves: where they cannot be read no option knows yet that it was given. `--json=true`
// is a way of CLI11 to say it too, with words of its own for yes and no.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](const char* word) {
    std::string_view text = word;
    if (text == "--json") return true;
    constexpr std::string_view with_value = "--json=";
    bool value = false;
    return text.starts_with(with_value) &&
           CLI::detail::lexical_cast(std::string(text.substr(with_value.size())), value) && value;
  });
}

// Where a command, or the reading of its options, says no there is no result yet: what it says is the
// document.
ExitCode refuse(ExitCode code, const std::exception& error, bool json) {
  Console{.json = json}.document(refusal_document(code, error));
  return fail(code, error.what());
}

ExitCode parse_and_run(int argc, char** argv) {
  CLI::App program(
      "moetune measures a Mixture-of-Experts model on this machine under many configurations and recommends "
      "one.");
  program.name("moetune")->footer(footer)->formatter(help_formatter());
  program.set_version_flag("--version", version_text(), "Print version, commit and build, and exit");
  program.set_help_flag("-h,--help", "Print this help and exit");
  // Unknown words are collected, not refused by CLI11: refuse_unknown_words() can say which one was meant.
  program.allow_extras();

  std::vector<std::string> as_typed(argv, argv + argc);
  std::vector<std::string> words = with_flag_values(as_typed, "--explain");
  if (!as_typed.empty()) as_typed.front() = "moetune";
  std::vector<Command> commands = {add_tune_command(program, as_typed),
                                   add_measure_command(program),
                                   add_logits_command(program),
                                   add_trace_command(program),
                                   add_tax_command(program),
                                   add_doctor_command(program),
                                   add_compare_command(program),
                                   add_report_command(program),
                                   add_list_command(program),
                                   add_validate_command(program),
                                   add_ci_command(program, as_typed),
                                   add_export_command(program),
                                   add_confirm_command(program),
                                   add_man_command(program),
                                   add_completions_command(program),
                                   add_worker_command(program),
                                   add_gpu_probe_command(program)};
  for (Command& command : commands) add_help_all(command);
  for (Command& later : add_later_commands(program)) commands.push_back(std::move(later));

  try {
    words.erase(words.begin(), words.begin() + (words.empty() ? 0 : 1));
    std::ranges::reverse(words);  // as CLI11 takes them
    program.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = program.get_subcommands();
    print_line(stdout, chosen.empty() ? program.help() : chosen.front()->help("moetune"));
    return ExitCode::done;
  } catch (const CLI::CallForVersion&) {
    print_line(stdout, version_text());
    return ExitCode::done;
  } catch (const CLI::ParseError& error) {
    return refuse(ExitCode::bad_input, std::runtime_error(message_of(program, error)),
                  wants_json(argc, argv));
  }
  refuse_unknown_words(program);
  for (const Command& command : commands)
    if (command.options->parsed()) return command.run();
  Console{.json = wants_json(argc, argv)}.document(
      refusal_document(ExitCode::bad_input, std::runtime_error("no command given")));
  return fail(ExitCode::bad_input, "no command given\n\n" + program.help());
}

}  // namespace

int run_command_line(int argc, char** argv) {
  ExitCode code = ExitCode::our_fault;
  try {
    code = parse_and_run(argc, argv);
    // Results that did not reach a full disk or a closed pipe must not look like success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      code = fail(ExitCode::our_fault, "cannot write to standard output");
  } catch (const InputError& error) {
    code = refuse(ExitCode::bad_input, error, wants_json(argc, argv));
  } catch (const NoFeasibleConfiguration& error) {
    code = refuse(ExitCode::no_feasible_configuration, error, wants_json(argc, argv));
  } catch (const std::bad_alloc&) {
    code = fail(ExitCode::our_fault, "out of memory");
  } catch (const std::exception& error) {
    code = fail(ExitCode::our_fault, error.what());
  }
  return static_cast<int>(code);
}

}  // namespace moetune
