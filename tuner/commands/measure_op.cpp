#include "tuner/commands/measure_op.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/bench/op_bench.h"
#include "engine/checkpoint.h"
#include "engine/facts/knobs.h"
#include "engine/facts/size_text.h"
#include "engine/option_rules.h"
#include "engine/probe.h"
#include "tuner/commands/bench_within.h"
#include "tuner/commands/cut_short_ops.h"
#include "tuner/commands/disturbances.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/live_words.h"
#include "tuner/commands/op_measurement.h"
#include "tuner/commands/op_notes.h"
#include "tuner/commands/op_results.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/commands/time_ops.h"
#include "tuner/other_work.h"

namespace moetune {
namespace {

constexpr std::int64_t most_tokens = 1 << 16;
constexpr std::int64_t usual_context = 512;
constexpr std::int64_t read_bytes_gpu = std::int64_t{256} << 20;  // of one of 16 blocks
constexpr std::int64_t read_bytes_cpu = std::int64_t{64} << 20;
// Making the weights of 16 layers of a published model, 20 GB, takes a CPU minutes; what few layers leave in
// its caches is read out of them between two runs.
constexpr int wanted_layers_cpu = 4;
// What one op or layer on one device cannot show.
constexpr std::array<std::string_view, 5> knobs_of_whole_runs{
    "tensor_parallel", "expert_parallel", "max_sequences", "prefix_cache", "prefill_chunk"};
constexpr int least_runs = 6;  // below, the median has no interval

std::vector<std::string> ops_of(const std::string& text, const ModelSpec& spec) {
  const std::vector<std::string> accepted = op_names(spec);
  if (text == "all") return accepted;
  std::vector<std::string> ops = split_list("--op", text);
  for (const std::string& op : ops) {
    if (std::ranges::find(accepted, op) != accepted.end()) continue;
    const bool is_known = std::ranges::find(known_ops(), op, &OpFacts::name) != known_ops().end();
    throw InputError(
        "--op",
        is_known ? fmt::format("'{}': {} has none", op, spec.name) : fmt::format("no op named '{}'", op),
        fmt::format("all, {}", fmt::join(accepted, ", ")));
  }
  return ops;
}

std::vector<std::int64_t> token_counts(const std::string& text) {
  std::vector<std::int64_t> counts;
  for (const std::string& item : split_list("--tokens", text))
    counts.push_back(parse_whole_number("--tokens", item, 1, most_tokens));
  return counts;
}

void look(CpuWatch& watch) {
  if (const auto snapshot = look_at_cpus()) watch.add(*snapshot);
}

EngineOptions engine_options(const CommonOptions& common, const MeasureOpOptions& options,
                             const std::vector<std::string>& settings, DeviceKind device) {
  EngineOptions engine = default_options(device);
  engine.cpu_threads = common.threads;
  if (!options.type.empty()) set_knob(engine, "expert_quant", options.type);
  for (const auto& [knob, value] : parse_assignments("--set", settings, setting_words)) {
    if (std::ranges::find(knobs_of_whole_runs, knob) != knobs_of_whole_runs.end())
      throw InputError("--set", knob + "=" + value + " with --op: single ops run on one rank, without a load",
                       "knobs other than " + fmt::format("{}", fmt::join(knobs_of_whole_runs, ", ")));
    set_knob(engine, knob, value);
  }
  return engine;
}

// As many layers as fit are made: into what is free now, not into what the machine has.
HardwareFingerprint hardware_now(const CommonOptions& common, const DeviceChoice& device) {
  HardwareFingerprint hardware = probe_hardware(common.threads);
  if (device.gpu) describe_gpu(hardware, *device.gpu);
  if (!device.gpu) hardware.device_bytes = std::min(hardware.device_bytes, available_memory_bytes());
  if (common.device_memory_bytes > 0)
    hardware.device_bytes = std::min(hardware.device_bytes, common.device_memory_bytes);
  return hardware;
}

std::int64_t context_of(const MeasureOpOptions& options, const ModelSpec& spec, std::int64_t tokens) {
  const std::int64_t context = options.context > 0 ? options.context
                               : options.is_prompt ? tokens
                                                   : std::min<std::int64_t>(usual_context, spec.max_context);
  if (options.is_prompt && context < tokens)
    throw InputError("--context", std::to_string(context),
                     fmt::format("at least the {} tokens of --prompt", tokens));
  return context;
}

// The notes, and what was cut short on stderr as well.
std::vector<std::string> notes_of(const OpMeasurement& found, const Console& console) {
  CutShortOps cut_short;
  for (const OpTiming& timing : found.timings) cut_short.add(timing, found.runs);
  if (cut_short.all_untimed(found.timings.size()))
    throw InputError("--budget", fmt::format("{:g} s: {}", found.budget_seconds, cut_short.first_untimed()),
                     "a larger one, or fewer --tokens");
  std::vector<std::string> notes = op_notes(found);
  for (const std::string& note : cut_short.notes(found.runs, found.budget_seconds)) {
    notes.push_back(note);
    console.warn("moetune: " + note);
  }
  return notes;
}

}  // namespace

void add_measure_op_options(CLI::App& command, MeasureOpOptions& options) {
  std::string names;
  for (const OpFacts& op : known_ops()) names += (names.empty() ? "" : ", ") + op.name;
  CLI::Option* op = add_text_option(command, "--op", options.ops, "NAME,NAME|all",
                                    "Time ops of the model instead of workloads: " + names);
  // Each means nothing to a workload: given without --op it must not be dropped in silence.
  const std::vector<CLI::Option*> details{
      add_text_option(command, "--tokens", options.tokens, "N,N",
                      "With --op: tokens of a step, each at the end of a context of its own"),
      add_text_option(command, "--type", options.type, "TYPE",
                      "With --op: number type of the routed experts, as --set expert_quant=TYPE"),
      add_parsed_option(
          command, "--context", options.context,
          [](const std::string& flag, const std::string& text) {
            return parse_whole_number(flag, text, 1, 1 << 24);
          },
          "N", "With --op: tokens that each token attends to (default: 512)"),
      add_flag(command, "--prompt", options.is_prompt,
               "With --op: the tokens follow each other in one sequence"),
      add_parsed_option(
          command, "--runs", options.runs,
          [](const std::string& flag, const std::string& text) {
            return parse_whole_number(flag, text, least_runs, 100000);
          },
          "N", "With --op: launches of the graph that are timed, 6 or more", "25")};
  for (CLI::Option* detail : details) detail->needs(op);
}

void refuse_beside_op(CLI::App& command, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) command.get_option(flag)->excludes("--op");
}

ExitCode measure_ops(const CommonOptions& common, const MeasureOpOptions& options,
                     const std::vector<std::string>& settings) {
  const Console& console = common.console;
  const std::vector<std::int64_t> counts = token_counts(options.tokens);
  const std::int64_t most = *std::ranges::max_element(counts);
  const auto checkpoint = open_checkpoint(common.model);
  const ModelSpec& spec = checkpoint->spec();
  const std::vector<std::string> ops = ops_of(options.ops, spec);
  const DeviceChoice device = choose_device(common.device, [] { return ask_for_gpu(); });
  const EngineOptions engine = engine_options(common, options, settings, device.kind);
  const HardwareFingerprint hardware = hardware_now(common, device);
  const std::int64_t context = context_of(options, spec, most);
  const int wanted_layers = device.kind == DeviceKind::cuda ? kWantedLayers : wanted_layers_cpu;
  const LiveWords live(console);
  console.log(fmt::format("making weights of {}, within {}", spec.name, size_text(hardware.device_bytes)));
  const OpBenchSetup setup{.ops = ops,
                           .tokens = most,
                           .context = context,
                           .is_prompt = options.is_prompt,
                           .device_bytes = hardware.device_bytes,
                           .cold_bytes = device.kind == DeviceKind::cuda ? cold_reuse_bytes(device.kind)
                                                                         : 2 * last_level_cache_bytes(),
                           .read_bytes = device.kind == DeviceKind::cuda ? read_bytes_gpu : read_bytes_cpu,
                           .seed = common.seed,
                           .wanted_layers = wanted_layers,
                           .most_seconds = most_making_seconds(options.budget_seconds)};
  const BenchWithin made = bench_within(checkpoint, engine, setup,
                                        device.kind == DeviceKind::cpu ? setup.most_seconds : kNoTimeLimit);
  OpMeasurement found{
      .model = spec,
      .engine = engine,
      .where = device.gpu ? device.gpu->facts.name : "cpu: " + hardware.cpu_name,
      .driver = hardware.driver,
      .context = context,
      .is_prompt = options.is_prompt,
      .seed = common.seed,
      .runs = options.runs,
      .budget_seconds = options.budget_seconds,
      .wanted_layers = wanted_layers,
      .has_fewer_layers = made.has_fewer_layers,
      .rates = {.read_gb_per_s = hardware.memory_gb_per_s, .tensor_flops = made.bench->tensor_flops()},
      .timings = {}};

  // Of the processors alone: the GPU is held by this very process, which inside a container has another
  // number there.
  CpuWatch others(::getpid(), device.gpu ? 1 : hardware.cpu_cores);
  look(others);
  found.timings = time_ops(*made.bench,
                           {.ops = ops,
                            .tokens = counts,
                            .runs = options.runs,
                            .most_seconds = most_timing_seconds(options.budget_seconds, made.seconds)},
                           {.before = [&](const std::string& words) { live.show(words); },
                            .after =
                                [&] {
                                  live.clear();
                                  look(others);
                                }});

  const std::vector<std::string> notes = notes_of(found, console);
  console.result(fmt::format("{}, {} experts, context {}, {}\n", spec.name,
                             name_of(expert_type(spec, engine)), context, found.where));
  console.result(op_table(found).text());
  for (const std::string& note : notes) console.result(wrapped(note, 80, 0));
  const Disturbances disturbances{.on_processors = others.disturbances(), .on_gpu = {}, .arisen = {}};
  nlohmann::json document = op_document(found, notes);
  add_to(document, disturbances);
  console.document(document);
  for (const std::string& line : lines_about(disturbances)) console.warn(line);
  return ExitCode::done;
}

}  // namespace moetune
