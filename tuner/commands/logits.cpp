// moetune logits: the logits of given tokens, to check this engine against other implementations, or one configuration
// against another.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/data_files.h"
#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/memory_plan.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/npy.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study.h"

namespace moetune {
namespace {

constexpr int longest_step = 256;

struct LogitsOptions {
  CommonOptions common;
  std::string tokens;
  std::string tokens_file;
  std::string out;
  std::string feed = "step";
  std::vector<std::string> settings;
};

std::string parse_feed(const std::string& flag, const std::string& text) {
  if (text == "step" || text == "prefill") return text;
  throw InputError(flag, "'" + text + "'", "step, prefill");
}

// Ids separated by commas, blanks or line ends.
std::vector<std::int32_t> parse_tokens(const std::string& where, std::string text, int vocabulary) {
  std::ranges::replace_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }, ',');
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ',' && b == ','; }), text.end());
  if (text.starts_with(',')) text.erase(0, 1);
  if (text.ends_with(',')) text.pop_back();
  std::vector<std::int32_t> ids;
  if (text.empty()) throw InputError(where, "no token", "token ids separated by commas");
  for (const std::string& item : split_list(where, text)) {
    const std::string place = where + ": token " + std::to_string(ids.size());
    ids.push_back(static_cast<std::int32_t>(parse_whole_number(place, item, 0, vocabulary - 1)));
  }
  return ids;
}

std::vector<std::int32_t> tokens_of(const LogitsOptions& options, const ModelSpec& spec) {
  if (options.tokens.empty() == options.tokens_file.empty())
    throw InputError("logits", options.tokens.empty() ? "no tokens given" : "--tokens and --tokens-file together",
                     "one of --tokens 1,5,9 and --tokens-file FILE");
  std::vector<std::int32_t> ids;
  if (!options.tokens.empty()) {
    ids = parse_tokens("--tokens", options.tokens, spec.vocabulary);
  } else {
    std::ifstream file(options.tokens_file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) throw InputError("--tokens-file", "cannot read '" + options.tokens_file + "'", "a file of token ids");
    ids = parse_tokens(options.tokens_file, text, spec.vocabulary);
  }
  if (std::ssize(ids) > spec.max_context)
    throw InputError("tokens", std::to_string(ids.size()) + " are more than the model's context",
                     std::to_string(spec.max_context) + " or fewer");
  return ids;
}

ExitCode run_logits(const LogitsOptions& options) {
  const auto checkpoint = open_checkpoint(model_directory(options.common.model));
  checkpoint->check_finite();
  const ModelSpec& spec = checkpoint->spec();
  const std::vector<std::int32_t> ids = tokens_of(options, spec);

  EngineOptions engine_options;
  engine_options.cpu_threads = options.common.threads;
  for (const std::string& setting : options.settings) {
    const auto [knob, value] = parse_assignment("--set", setting, setting_words);
    set_knob(engine_options, knob, value);
  }
  const int step_tokens = options.feed == "step" ? 1 : std::min(longest_step, static_cast<int>(ids.size()));
  const EngineLimits limits{.sequences = 1, .context_tokens = static_cast<int>(ids.size()), .step_tokens = step_tokens};
  if (const auto objection = objection_to(spec, engine_options, limits, 0)) throw InputError("--set", *objection, "");

  // The file is opened first: a wrong path must not cost the time of loading a model.
  NpyWriter file(options.out, std::ssize(ids), spec.vocabulary);
  Engine engine(checkpoint, engine_options, limits);
  const auto vocabulary = static_cast<std::size_t>(spec.vocabulary);
  std::vector<StepToken> step;
  for (std::size_t next = 0; next < ids.size();) {
    step.clear();
    for (; next < ids.size() && std::ssize(step) < step_tokens; ++next)
      step.push_back({.id = ids[next], .sequence = 0, .position = static_cast<std::int32_t>(next)});
    const std::span<const float> logits = engine.forward(step);
    for (std::size_t row = 0; row < step.size(); ++row) file.write_row(logits.subspan(row * vocabulary, vocabulary));
  }
  file.finish();
  options.common.console.result(fmt::format("{}: float32 ({}, {})", options.out, ids.size(), vocabulary));
  options.common.console.document({{"file", options.out}, {"type", "float32"}, {"shape", {ids.size(), vocabulary}},
                                   {"model", spec.name}, {"model_hash", spec.content_hash}, {"feed", options.feed}});
  return ExitCode::done;
}

}  // namespace

Command add_logits_command(CLI::App& program) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App& command = add_subcommand(program, "logits", "Logits of given tokens, to check against other implementations",
                                     "Row i holds the logits after tokens 0 .. i (teacher-forced).\n\n"
                                     "  moetune logits --tokens 72,101,108 --out a.npy\n"
                                     "  moetune logits --tokens 72,101,108 --set expert_quant=int4 --out b.npy");
  add_text_option(command, "--tokens", options->tokens, "ID,ID,...", "Token ids, such as 1,5,9");
  add_text_option(command, "--tokens-file", options->tokens_file, "FILE", "The same from a file; blanks and line ends separate too");
  required(add_text_option(command, "--out", options->out, "FILE.npy", "NumPy file to write: float32 (tokens, vocabulary)"));
  add_parsed_option(command, "--feed", options->feed, parse_feed, "step|prefill",
                    "One token at a time as decoding does, or many at once as for a prompt", "step");
  add_repeated_option(command, "--set", options->settings, "KNOB=VALUE", "Change a knob; any number of times");
  add_common_options(command, options->common, {.model = true, .workload = false});
  return {&command, [options] { return run_logits(*options); }};
}

}  // namespace moetune
