// moetune trace: one pass that records the routing; hit rate of every cache size and policy, and what
// predictors would do, from the record; three sizes measured against it.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/facts/error.h"
#include "engine/facts/knobs.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/tokenizer.h"
#include "engine/trace/recorder.h"
#include "engine/trace/text_kinds.h"
#include "engine/trace/trace_file.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/partial_file.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/trace_report.h"
#include "tuner/commands/trace_space.h"
#include "tuner/counted.h"

namespace moetune {
namespace {

constexpr int default_sequences = 32;  // so that steps of 32 can be put together
constexpr int longest_step = 512;

struct TraceOptions {
  CommonOptions common;
  std::string out;
  std::string from;
  std::string space_out;
  int sequences = default_sequences;
  bool no_check = false;
  std::vector<std::string> settings;
};

struct Model {
  std::shared_ptr<const Checkpoint> checkpoint;
  EngineOptions options;
};

Model open_model(const TraceOptions& options, DeviceKind device) {
  Model model{.checkpoint = open_checkpoint(options.common.model), .options = default_options(device)};
  if (model.checkpoint->spec().moe_layer_count() == 0)
    throw InputError("--model", "'" + options.common.model + "' has no layer that routes",
                     "a Mixture-of-Experts model");
  model.checkpoint->check_finite();
  model.options.cpu_threads = options.common.threads;
  for (const auto& [knob, value] : parse_assignments("--set", options.settings, setting_words))
    set_knob(model.options, knob, value);
  return model;
}

void require_room(const Model& model, const EngineLimits& limits, std::int64_t memory) {
  if (const auto objection = objection_to(model.checkpoint->spec(), model.options, limits, 0))
    throw InputError("--set", *objection, "");
  if (const auto objection = objection_to(model.checkpoint->spec(), model.options, limits, memory))
    throw NoFeasibleConfiguration(*objection);
}

// Sequences that start at equal distances over the whole text, so that they are of all its kinds.
TracePlan plan_of(const TokenSource& text, const TextKinds& kinds, const Workload& workload, int sequences) {
  TracePlan plan{.sequences = {}, .prompt_tokens = workload.prompt_tokens, .kind_names = kinds.names};
  const std::int64_t length = workload.prompt_tokens + workload.output_tokens;
  const std::int64_t last_start = std::ssize(text.ids) - length;
  if (last_start < 0)
    throw InputError(text.description, fmt::format("{} tokens", text.ids.size()),
                     fmt::format("at least {}: a prompt and an answer", length));
  for (int i = 0; i < sequences; ++i) {
    const std::int64_t start = sequences == 1 ? 0 : last_start * i / (sequences - 1);
    plan.sequences.push_back({{text.ids.begin() + start, text.ids.begin() + start + length},
                              {kinds.of_token.begin() + start, kinds.of_token.begin() + start + length}});
  }
  return plan;
}

// The calibration text's own kinds; a text of the user's is of one kind.
TextKinds kinds_of(const TokenSource& text, const Checkpoint& checkpoint, const TraceOptions& options) {
  const bool is_own = text.from_text && options.common.calibration.empty();
  TextKinds kinds = text_kinds(is_own ? checkpoint.directory() : "", std::ssize(text.ids));
  if (!text.from_text) kinds.names = {"seeded ids"};
  return kinds;
}

int longest_prompt_step(const RoutingTrace& trace) {
  int longest = 1;
  for (std::size_t token = 0, first = 0; token < trace.steps.size(); ++token) {
    if (trace.steps[token] != trace.steps[first]) first = token;
    longest = std::max(longest, static_cast<int>(token - first) + 1);
  }
  return longest;
}

// A trace from a file can be measured on its own model only, and with as many places per token.
void require_same_model(const RoutingTrace& trace, const Model& model, const std::string& file) {
  const ModelSpec& spec = model.checkpoint->spec();
  if (trace.model_hash != spec.content_hash)
    throw InputError(file, fmt::format("a trace of {} ({:.12})", trace.model, trace.model_hash),
                     fmt::format("one of {} ({:.12}); or --no-check", spec.name, spec.content_hash));
  if (trace.k != routing_width(spec, model.options) || trace.layers != spec.moe_layer_count() ||
      trace.experts != spec.experts)
    throw InputError(file, fmt::format("{} experts a token", trace.k),
                     fmt::format("{}, the top_k of this run", routing_width(spec, model.options)));
  for (const std::int32_t id : trace.token_ids)
    if (id >= spec.vocabulary)
      throw InputError(file + ": token_ids", std::to_string(id), fmt::format("0 .. {}", spec.vocabulary - 1));
}

// Why the three sizes cannot be measured; empty: they can.
std::string obstacle_to_check(const RoutingTrace& trace, const Model& model, const EngineLimits& limits,
                              const TraceOptions& options) {
  if (options.no_check) return "--no-check";
  if (fewest_slots(trace) == all_experts(trace)) return "every token asks for all experts";
  EngineOptions smallest = model.options;
  smallest.expert_cache_bytes = fewest_slots(trace) * expert_bytes(model.checkpoint->spec(), smallest);
  if (smallest.reroute_margin > 0.0) return "reroute_margin makes the routing depend on the cache";
  const auto objection = objection_to_options(model.checkpoint->spec(), smallest, limits);
  return objection ? objection->text() : "";
}

void finish(const TraceOptions& options, const TraceReport& report) {
  options.common.console.document(to_json_value(report));
  options.common.console.result(tables_of(report));
  if (!options.out.empty()) options.common.console.log("trace: " + options.out);
  if (!options.space_out.empty()) options.common.console.log("space: " + options.space_out);
}

// A trace brings its own texts, and alone it needs no model: what would say something about either is refused
// where it would change nothing.
void refuse_what_a_file_settles(const TraceOptions& options) {
  const CommonOptions usual;
  const auto refuse_with = [](const char* flag, const std::string& with, const std::string& accepted) {
    throw InputError(flag, "given with " + with + ": it would change nothing", accepted);
  };
  if (options.common.workload != usual.workload) refuse_with("--workload", "--from", "one of the two");
  if (options.sequences != default_sequences) refuse_with("--sequences", "--from", "one of the two");
  if (!options.no_check) return;
  if (!options.settings.empty()) refuse_with("--set", "--from and --no-check", "--from without --no-check");
  if (options.common.model != usual.model)
    refuse_with("--model", "--from and --no-check",
                "--from without --no-check: the trace says of which model it is");
}

ExitCode run_trace_command(const TraceOptions& options) {
  if (!options.from.empty()) refuse_what_a_file_settles(options);
  const Console& console = options.common.console;
  TraceReport report;
  std::optional<PartialFile> file;
  if (!options.out.empty()) file.emplace("--out", options.out);
  if (!options.space_out.empty() && options.no_check)
    throw InputError("--space-out", "given with --no-check: it takes what the check measures",
                     "one of the two");
  std::optional<PartialFile> space_file;
  if (!options.space_out.empty()) space_file.emplace("--space-out", options.space_out);
  if (!options.from.empty()) {
    report.trace = read_trace_file(options.from);
    report.text = "read from " + options.from;
  }
  if (!options.from.empty() && options.no_check) {
    report.why_unchecked = "--no-check";
  } else {
    const DeviceChoice device = choose_device(options.common.device, [] { return ask_for_gpu(); });
    const Model model = open_model(options, device.kind);
    const ModelSpec& spec = model.checkpoint->spec();
    if (const std::string words = unused_gpu_message(device); !words.empty()) console.warn(words);
    if (const std::string words = no_cublas_message(device.kind); !words.empty()) console.warn(words);
    if (const std::string note = model_note(spec); !note.empty()) console.log(note);
    EngineLimits limits;
    if (options.from.empty()) {
      const Workload workload = workloads_of(options.common, spec).front();
      limits = trace_limits(workload.prompt_tokens + workload.output_tokens,
                            std::min(workload.prompt_tokens, longest_step));
      require_room(model, limits,
                   device.gpu ? plannable_bytes(device.gpu->facts) : options.common.device_memory_bytes);
      const TokenSource text = calibration_tokens(*model.checkpoint, options.common.calibration,
                                                  std::int64_t{limits.context_tokens} * options.sequences);
      const TracePlan plan =
          plan_of(text, kinds_of(text, *model.checkpoint, options), workload, options.sequences);
      report.text =
          fmt::format("{}, {} of {} + {} tokens", text.description, counted(options.sequences, "sequence"),
                      workload.prompt_tokens, workload.output_tokens);
      Engine engine(model.checkpoint, model.options, limits);
      console.log("recording " + report.text);
      report.trace = record_trace(engine, plan);
    } else {
      require_same_model(report.trace, model, options.from);
      limits = trace_limits(*std::ranges::max_element(report.trace.positions) + 1,
                            longest_prompt_step(report.trace));
      require_room(model, limits,
                   device.gpu ? plannable_bytes(device.gpu->facts) : options.common.device_memory_bytes);
    }
    console.log("replaying");
    report.analysis = analyse_trace(report.trace);
    report.why_unchecked = obstacle_to_check(report.trace, model, limits, options);
    if (report.why_unchecked.empty())
      report.check = check_trace(model.checkpoint, model.options, limits, report.trace, report.analysis.lru,
                                 [&](const std::string& words) { console.log(words); });
    else if (!options.no_check)
      console.warn("nothing is measured against the predictions: " + report.why_unchecked);
  }
  if (report.analysis.points.empty()) report.analysis = analyse_trace(report.trace);
  if (file) {
    const std::string bytes = trace_bytes(report.trace);
    file->write(bytes.data(), bytes.size());
    file->finish();
  }
  if (space_file) {
    if (!report.check)
      throw InputError("--space-out", "nothing was measured: " + report.why_unchecked,
                       "options that can be checked");
    std::map<std::string, std::string> settings;
    for (const auto& [knob, value] : parse_assignments("--set", options.settings, setting_words))
      settings[knob] = value;
    space_file->finish(trace_space(report, settings).dump(2) + "\n");
  }
  finish(options, report);
  return ExitCode::done;
}

}  // namespace

Command add_trace_command(CLI::App& program) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App& command = add_subcommand(
      program, "trace", "Record expert routing; hit rate of every cache size and policy from one pass",
      "Prompts and answers of the workload's lengths are fed from the calibration text, one sequence after "
      "the other. What "
      "follows from the record alone is called replayed; three sizes of an lru cache are then measured and "
      "set beside what "
      "was predicted of them.\n\n"
      "  moetune trace --out tiny.trace\n"
      "  moetune trace --from tiny.trace --no-check --json\n"
      "  moetune trace --space-out sizes.json; moetune tune --space sizes.json\n"
      "  moetune trace --model qwen3-30b-a3b:layers=4 --sequences 4 --set top_k=4");
  add_text_option(command, "--out", options->out, "FILE",
                  "Save the trace: safetensors, see engine/trace/trace_file.h");
  add_text_option(command, "--from", options->from, "FILE",
                  "Read a trace in place of recording one; what is measured takes its experts");
  add_text_option(
      command, "--space-out", options->space_out, "FILE",
      "Save a search space for tune: the sizes of the expert cache and, on a GPU, per size the ways of "
      "handling a miss that are predicted to be at most a quarter behind the best");
  add_parsed_option(
      command, "--sequences", options->sequences,
      [](const std::string& flag, const std::string& text) {
        return parse_whole_number(flag, text, 1, 4096);
      },
      "N", "Sequences to record", std::to_string(default_sequences));
  add_flag(command, "--no-check", options->no_check, "Measure nothing against the predictions");
  add_repeated_option(command, "--set", options->settings, "KNOB=VALUE",
                      "Change a knob; any number of times");
  add_common_options(command, options->common, {.model = true, .workload = true});
  return {&command, [options] { return run_trace_command(*options); }};
}

}  // namespace moetune
