// moetune export: a profile as the launch flags of a server.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/data_files.h"
#include "engine/probe.h"
#include "kernels/gpu_health.h"
#include "tuner/child_output.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/elsewhere.h"
#include "tuner/commands/export_model.h"
#include "tuner/commands/profile_argument.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/server_tables.h"
#include "tuner/commands/table.h"
#include "tuner/export/claims.h"
#include "tuner/export/formats.h"
#include "tuner/export/given_text.h"
#include "tuner/export/help_check.h"
#include "tuner/export/knob_names.h"
#include "tuner/export/placeholders.h"
#include "tuner/export/server_table.h"
#include "tuner/export/translate.h"
#include "tuner/launch_profile.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds help_patience(120);  // vLLM imports torch before it says anything

struct ExportOptions {
  Console console;
  std::string profile;
  std::string server;
  std::string format = "shell";
  std::string version;
  std::string model;
  std::string image;
  std::string explain;
  std::map<std::string, std::string> given;
  std::int64_t trial = -1;  // below 0: the recommended one
  bool check = false;
  bool nearest = false;
};

// What is a path of this machine is mounted at the same place: a folder itself, a file with its neighbours
// (shards).
std::vector<std::string> mounted_folders(std::map<std::string, std::string>& given) {
  std::vector<std::string> folders;
  for (const char* const name : {"server_model", "gguf", "kt_weights"}) {
    std::string& text = given[name];
    std::error_code ignored;  // what cannot be looked at is taken as it is written
    if (text.empty() || (!text.starts_with('/') && !fs::exists(text, ignored))) continue;
    const fs::path path = fs::absolute(text, ignored).lexically_normal();
    text = path.string();
    const bool is_file = std::string(name) == "gguf";
    const fs::path folder = is_file && path.parent_path() != "/" ? path.parent_path() : path;
    if (std::ranges::find(folders, folder.string()) == folders.end()) folders.push_back(folder.string());
  }
  return folders;
}

int gpus_of(const LaunchProfile& profile, const ServerTable& table) {
  if (table.device != "gpu" && profile.hardware.device == "cpu") return 0;
  int gpus = 1;
  for (const char* const knob : {"tensor_parallel", "expert_parallel"}) {
    const auto found = profile.recommended.configuration.find(knob);
    if (found != profile.recommended.configuration.end())
      gpus = std::max(gpus, whole_setting(knob, found->second));
  }
  return gpus;
}

// Another point of the profile in the place of the recommended one.
void take_point(LaunchProfile& profile, std::int64_t trial) {
  if (trial == profile.recommended.trial) return;
  std::string known = std::to_string(profile.recommended.trial);
  for (const ProfilePoint& point : points_of(profile)) {
    if (point.trial == trial) {
      profile.recommended = point;
      profile.confirmations.clear();  // of another configuration
      return;
    }
    if (point.trial != profile.recommended.trial) known += ", " + std::to_string(point.trial);
  }
  throw InputError("--trial", std::to_string(trial), "one of the profile's: " + known);
}

ExitCode check_installed(ServerCommand& command, const ServerTable& table, const Console& console) {
  std::vector<std::string> ask{"/usr/bin/env"};  // looks for the server in PATH
  ask.insert(ask.end(), table.help.begin(), table.help.end());
  const ChildOutput help = output_of(ask, help_patience);
  const std::set<std::string> known = flags_in_help(help.text);
  if (known.empty())
    throw InputError("--check",
                     fmt::format("'{}' {}", fmt::join(table.help, " "),
                                 help.problem.empty() ? "names no flag" : help.problem),
                     "a server that is installed here");
  const HelpCheck result = check_against(command, known);
  console.log(fmt::format("--check: {} flags stand in the help of {}, {} do not", result.accepted,
                          table.help.front(), result.refused));
  return result.refused == 0 ? ExitCode::done : ExitCode::not_comparable;
}

ExitCode run_explain(const ExportOptions& options) {
  const std::vector<Claim> claims = claims_file().empty() ? std::vector<Claim>{} : read_claims(claims_file());
  const Explanation explanation = explain(options.explain, claims, server_tables());
  options.console.result(explanation_text(explanation));
  options.console.document(explanation_document(explanation));
  return ExitCode::done;
}

ExitCode run_export(ExportOptions options) {
  if (!options.explain.empty()) return run_explain(options);
  const ExportFormat format = export_format_named("--format", options.format);
  const std::vector<ServerTable> tables = server_tables();
  const ServerTable& table = server_named(tables, "--server", options.server);
  const KnobNames names = server_knob_names();
  const std::string file = profile_file(options.profile);
  LaunchProfile profile = load_launch_profile(file);
  if (options.trial >= 0) take_point(profile, options.trial);

  if (!options.console.quiet)
    if (const std::string words = elsewhere_words(profile, describe_host(0), look_at_gpus()); !words.empty())
      options.console.log(wrapped(words, 80, 0));

  std::string service = "moetune-" + table.server;
  std::ranges::replace(service, '.', '-');
  check_text("--image", options.image);
  if (std::ranges::any_of(options.image, [](unsigned char c) { return std::isspace(c); }))
    throw InputError("--image", "'" + printable(options.image) + "'",
                     "one image, such as vllm/vllm-openai:v0.29.0");
  ContainerFacts container{.image = options.image.empty() ? table.image : options.image,
                           .listen = table.listen,
                           .port = table.port,
                           .gpus = gpus_of(profile, table),
                           .folders = {},
                           .name = service};
  if (format == ExportFormat::compose || format == ExportFormat::k8s) {
    container.folders = mounted_folders(options.given);
    if (options.image.empty())
      options.console.log("the newest image is named; pin one with --image " + table.image + ":TAG");
  }
  ExportInputs inputs{.given = options.given,
                      .server_version = options.version,
                      .model = {},
                      .take_nearest = options.nearest};
  if (!options.version.empty()) is_older(options.version, table.version);  // refuses what is no version
  if (const std::optional<ModelSpec> spec = model_of_profile(profile, options.model))
    inputs.model = export_model(*spec, profile, names);

  ServerCommand command = translate(profile, table, names, inputs);
  const ExitCode code = options.check ? check_installed(command, table, options.console) : ExitCode::done;
  std::string text = export_text(command, options.console.json ? ExportFormat::json : format, container);
  while (text.ends_with('\n')) text.pop_back();
  fmt::print("{}\n",
             text);  // also with --json: caution comes first, which Console::document() would sort away
  return code;
}

}  // namespace

Command add_export_command(CLI::App& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App& command =
      add_subcommand(program, "export", "A profile as launch flags of a server",
                     "Every knob of the profile becomes a flag, needs none, or is listed as having no "
                     "equivalent, with the nearest choice and its cost. "
                     "Nothing here has run on that server: 'moetune confirm' measures it.\n\n"
                     "  moetune export runs/latest --server vllm --server-model Qwen/Qwen3-30B-A3B\n"
                     "  moetune export --server llama.cpp --gguf model.gguf --format compose\n"
                     "  moetune export --explain --enable-expert-cache");
  add_text_option(command, "PROFILE", options->profile, "FILE|DIR|NAME",
                  "Profile, run directory or name of 'moetune list profiles'; default the newest run");
  add_text_option(command, "--server", options->server, "NAME",
                  "vllm, sglang, llama.cpp, tensorrt-llm, ktransformers, tgi, lmdeploy, ollama");
  add_text_option(command, "--format", options->format, "shell|json|yaml|compose|k8s", "What to print");
  add_text_option(command, "--server-version", options->version, "V",
                  "Of the server; default the one its table was read from");
  add_parsed_option(
      command, "--trial", options->trial,
      [](const std::string& flag, const std::string& text) {
        return parse_whole_number(flag, text, 0, std::numeric_limits<std::int64_t>::max());
      },
      "N", "Another point of the profile's front than the recommended one");
  const auto add_given = [&](const char* flag, const char* name, const char* type, const char* help) {
    add_read_option(
        command, flag, [options, name](const std::string& text) { options->given[name] = text; }, type, help);
  };
  add_given("--server-model", "server_model", "DIR|ID", "What the server is to load: a folder or a hub id");
  add_given("--gguf", "gguf", "FILE", "What llama.cpp is to load");
  add_given("--kt-weights", "kt_weights", "DIR", "Experts for the CPU, as kt-kernel writes them");
  add_given("--kt-method", "kt_method", "NAME", "Their format, such as AMXINT4, AMXINT8, FP8, LLAMAFILE");
  add_given("--served-name", "served_name", "NAME", "What clients call the model");
  add_text_option(
      command, "--model", options->model, "DIR|NAME",
      "The model that was tuned, where the profile's name does not lead to it and its geometry is needed");
  add_text_option(command, "--image", options->image, "IMAGE", "Container image for compose and k8s");
  add_flag(command, "--nearest", options->nearest,
           "Put the nearest choices for what has no equivalent into the command");
  add_flag(command, "--check", options->check,
           "Ask the installed server's --help about every flag (exit code 6: one is not in it)");
  add_text_option(command, "--explain", options->explain, "FLAG",
                  "What is known about a flag, also one that only rumours name");
  add_output_options(command, options->console);
  return {&command, [options] { return run_export(*options); }};
}

}  // namespace moetune
