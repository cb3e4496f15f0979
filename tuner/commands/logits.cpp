// moetune logits: the logits of given tokens, to check this engine against other implementations, or one
// configuration against another.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/data_files.h"
#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/npy.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/routing_file.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_space.h"
#include "tuner/interruption.h"

namespace moetune {
namespace {

constexpr int longest_step = 256;

struct LogitsOptions {
  CommonOptions common;
  std::string tokens;
  std::string tokens_file;
  std::string out;
  std::string feed = "step";
  std::string routing_out;
  std::string routing_from;
  std::vector<std::string> settings;
};

std::string parse_feed(const std::string& flag, const std::string& text) {
  if (text == "step" || text == "prefill") return text;
  throw InputError(flag, "'" + text + "'", "step, prefill");
}

// Ids separated by commas, blanks or line ends; a comma stands between two of them.
std::vector<std::int32_t> parse_tokens(const std::string& where, const std::string& text, int vocabulary) {
  std::vector<std::int32_t> ids;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(where, "no token", "token ids separated by commas");
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream words(part);
    const std::size_t before = ids.size();
    for (std::string word; words >> word;) {
      const std::string place = where + ": token " + std::to_string(ids.size());
      ids.push_back(static_cast<std::int32_t>(parse_whole_number(place, word, 0, vocabulary - 1)));
    }
    if (ids.size() == before)
      throw InputError(where + ": token " + std::to_string(ids.size()), "nothing before a comma",
                       "a token id between two commas");
  }
  if (text.ends_with(','))
    throw InputError(where + ": token " + std::to_string(ids.size()), "nothing behind the last comma",
                     "a token id");
  return ids;
}

std::vector<std::int32_t> tokens_of(const LogitsOptions& options, const ModelSpec& spec) {
  if (options.tokens.empty() == options.tokens_file.empty())
    throw InputError("logits",
                     options.tokens.empty() ? "no tokens given" : "--tokens and --tokens-file together",
                     "one of --tokens 1,5,9 and --tokens-file FILE");
  std::vector<std::int32_t> ids;
  if (!options.tokens.empty()) {
    ids = parse_tokens("--tokens", options.tokens, spec.vocabulary);
  } else {
    std::ifstream file(options.tokens_file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file)
      throw InputError("--tokens-file", "cannot read '" + options.tokens_file + "'", "a file of token ids");
    ids = parse_tokens(options.tokens_file, text, spec.vocabulary);
  }
  if (std::ssize(ids) > spec.max_context)
    throw InputError("tokens", std::to_string(ids.size()) + " are more than the model's context",
                     std::to_string(spec.max_context) + " or fewer");
  return ids;
}

// What --routing-out and --routing-from do: the experts of every token and layer, kept or given.
class Routing {
 public:
  Routing(const LogitsOptions& options, const ModelSpec& spec, std::int64_t tokens, int k)
      : chosen_(spec, tokens, k) {
    if (options.routing_from.empty() && options.routing_out.empty()) return;
    if (spec.moe_layer_count() == 0)
      throw InputError("--routing-out, --routing-from", "a model without routed experts", "");
    if (!options.routing_from.empty()) given_ = read_routing(options.routing_from, spec, tokens, k);
    if (!options.routing_out.empty())
      file_ = std::make_unique<PartialFile>("--routing-out", options.routing_out);
  }

  void attach(Engine& engine) {
    if (given_)
      engine.force_routing([this](int layer, std::span<std::int32_t> ids, int tokens, int k) {
        for (int token = 0; token < tokens; ++token)
          std::ranges::copy(std::as_const(*given_).ids(begin_ + token, layer),
                            ids.begin() + std::ptrdiff_t{token} * k);
      });
    if (file_)
      engine.observe_routing([this](int layer, std::span<const std::int32_t> ids,
                                    std::span<const float> weights, int tokens, int k) {
        for (int token = 0; token < tokens; ++token) {
          const auto row = static_cast<std::size_t>(token) * static_cast<std::size_t>(k);
          std::ranges::copy(ids.subspan(row, static_cast<std::size_t>(k)),
                            chosen_.ids(begin_ + token, layer).begin());
          std::ranges::copy(weights.subspan(row, static_cast<std::size_t>(k)),
                            chosen_.weights(begin_ + token, layer).begin());
        }
      });
  }

  void step_begins_at(std::int64_t token) { begin_ = token; }

  void finish() {
    if (!file_) return;
    write_routing(*file_, chosen_);
    file_->finish();
  }

 private:
  RoutingTable chosen_;
  std::optional<RoutingTable> given_;
  std::unique_ptr<PartialFile> file_;
  std::int64_t begin_ = 0;  // first token of the running step
};

ExitCode run_logits(const LogitsOptions& options) {
  const DeviceChoice device = choose_device(options.common.device, [] { return ask_for_gpu(); });
  const auto checkpoint = open_checkpoint(options.common.model);
  checkpoint->check_finite();
  const ModelSpec& spec = checkpoint->spec();
  const std::vector<std::int32_t> ids = tokens_of(options, spec);

  EngineOptions engine_options = default_options(device.kind);
  engine_options.cpu_threads = options.common.threads;
  for (const auto& [knob, value] : parse_assignments("--set", options.settings, setting_words))
    set_knob(engine_options, knob, value);
  const int step_tokens = options.feed == "step" ? 1 : std::min(longest_step, static_cast<int>(ids.size()));
  const EngineLimits limits{
      .sequences = 1, .context_tokens = static_cast<int>(ids.size()), .step_tokens = step_tokens};
  if (const auto objection = objection_to(spec, engine_options, limits, 0))
    throw InputError("--set", *objection, "");
  const std::int64_t memory = device.gpu ? plannable_bytes(device.gpu->facts) : 0;
  if (const auto objection = objection_to(spec, engine_options, limits, memory))
    throw NoFeasibleConfiguration(*objection);

  const Interruption interruption;  // before there is a file: a half one must not be left behind
  // Files come first: a wrong path must not cost the time of loading a model.
  Routing routing(options, spec, std::ssize(ids), routing_width(spec, engine_options));
  NpyWriter file(options.out, std::ssize(ids), spec.vocabulary);
  if (const std::string words = unused_gpu_message(device); !words.empty())
    options.common.console.warn(words);
  if (const std::string words = no_cublas_message(device.kind); !words.empty())
    options.common.console.warn(words);
  Engine engine(checkpoint, engine_options, limits);
  routing.attach(engine);
  const auto vocabulary = static_cast<std::size_t>(spec.vocabulary);
  std::vector<StepToken> step;
  for (std::size_t next = 0; next < ids.size();) {
    if (interruption.requested()) {
      options.common.console.warn("moetune: interrupted, nothing is written");
      return ExitCode::interrupted;
    }
    step.clear();
    routing.step_begins_at(static_cast<std::int64_t>(next));
    for (; next < ids.size() && std::ssize(step) < step_tokens; ++next)
      step.push_back({.id = ids[next], .sequence = 0, .position = static_cast<std::int32_t>(next)});
    const std::span<const float> logits = engine.forward(step);
    for (std::size_t row = 0; row < step.size(); ++row)
      file.write_row(logits.subspan(row * vocabulary, vocabulary));
  }
  file.finish();
  routing.finish();
  options.common.console.result(fmt::format("{}: float32 ({}, {})", options.out, ids.size(), vocabulary));
  options.common.console.document({{"file", options.out},
                                   {"type", "float32"},
                                   {"shape", {ids.size(), vocabulary}},
                                   {"model", spec.name},
                                   {"model_hash", spec.content_hash},
                                   {"feed", options.feed},
                                   {"device", device.gpu ? device.gpu->facts.name : "cpu"}});
  return ExitCode::done;
}

}  // namespace

Command add_logits_command(CLI::App& program) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App& command =
      add_subcommand(program, "logits", "Logits of given tokens, to check against other implementations",
                     "Row i holds the logits after tokens 0 .. i (teacher-forced).\n\n"
                     "  moetune logits --tokens 72,101,108 --out a.npy\n"
                     "  moetune logits --tokens 72,101,108 --set expert_quant=int4 --out b.npy\n\n"
                     "With the same experts on both sides only the arithmetic differs:\n\n"
                     "  moetune logits --tokens 72,101,108 --device cpu \\\n"
                     "      --routing-out r.safetensors --out a.npy\n"
                     "  moetune logits --tokens 72,101,108 --device cuda \\\n"
                     "      --routing-from r.safetensors --out b.npy");
  add_text_option(command, "--tokens", options->tokens, "ID,ID,...", "Token ids, such as 1,5,9");
  add_text_option(command, "--tokens-file", options->tokens_file, "FILE",
                  "The same from a file; blanks and line ends separate too");
  required(add_text_option(command, "--out", options->out, "FILE.npy",
                           "NumPy file to write: float32 (tokens, vocabulary)"));
  add_parsed_option(command, "--feed", options->feed, parse_feed, "step|prefill",
                    "One token at a time as decoding does, or many at once as for a prompt", "step");
  add_text_option(
      command, "--routing-out", options->routing_out, "FILE",
      "Also write the chosen experts: safetensors with expert_ids, int32 (tokens, MoE layers, k)");
  add_text_option(command, "--routing-from", options->routing_from, "FILE",
                  "Take the experts of such a file; their weights are this run's own");
  add_repeated_option(command, "--set", options->settings, "KNOB=VALUE",
                      "Change a knob; any number of times");
  add_common_options(command, options->common, {.model = true, .workload = false});
  return {&command, [options] { return run_logits(*options); }};
}

}  // namespace moetune
