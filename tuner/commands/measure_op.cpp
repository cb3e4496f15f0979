#include "tuner/commands/measure_op.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/bench/op_bench.h"
#include "engine/checkpoint.h"
#include "engine/dense_shapes.h"
#include "engine/facts/knobs.h"
#include "engine/facts/size_text.h"
#include "engine/option_rules.h"
#include "engine/probe.h"
#include "tuner/commands/bench_within.h"
#include "tuner/commands/cut_short_ops.h"
#include "tuner/commands/disturbances.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/live_words.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/counted.h"
#include "tuner/other_work.h"
#include "tuner/statistics.h"

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

struct Rates {
  double read_bytes_per_s = 0.0;
  double tensor_flops = 0.0;  // 0: not known
};

// Of one layer, in the unit that a reader thinks in.
struct Shares {
  double microseconds;
  std::optional<Interval> interval;
  double read_share;  // above 1 it did not come from memory; see is_in_cache()
  std::optional<double> tensor_share;
};
Shares shares_of(const OpTiming& timing, const Rates& rates) {
  Shares shares{.microseconds = median(timing.microseconds),
                .interval = median_interval(timing.microseconds),
                .read_share = 0.0,
                .tensor_share = {}};
  shares.read_share = timing.cost.bytes / (1e-6 * shares.microseconds * rates.read_bytes_per_s);
  if (rates.tensor_flops > 0.0)
    shares.tensor_share = timing.cost.flops / (1e-6 * shares.microseconds * rates.tensor_flops);
  return shares;
}

// Faster than memory can be read: what it needed was in a cache, and a share of memory's rate says nothing
// about it.
bool is_in_cache(const Shares& shares) { return shares.read_share > 1.0; }

nlohmann::json to_json(const OpTiming& timing, const Shares& shares) {
  nlohmann::json object = {
      {"op", timing.op},
      {"tokens", timing.tokens},
      {"microseconds", shares.microseconds},
      {"low", nullptr},
      {"high", nullptr},
      {"n", timing.microseconds.size()},
      {"bytes", timing.cost.bytes},
      {"flops", timing.cost.flops},
      {"read_share", is_in_cache(shares) ? nlohmann::json() : nlohmann::json(shares.read_share)},
      {"in_cache", is_in_cache(shares)},
      {"tensor_share", nullptr},
      {"distinct_layers", timing.layers},
      {"caches_emptied", timing.is_flushed},
      {"experts_touched", timing.experts_touched},
      {"dense_products", {{"own", timing.dense.own}, {"cublas", timing.dense.cublas}}}};
  if (shares.interval) {
    object["low"] = shares.interval->low;
    object["high"] = shares.interval->high;
  }
  if (shares.tensor_share) object["tensor_share"] = *shares.tensor_share;
  return object;
}

std::vector<std::string> row_of(const OpTiming& timing, const Shares& shares) {
  return {timing.op,
          std::to_string(timing.tokens),
          fmt::format("{:.2f}", shares.microseconds),
          shares.interval ? fmt::format("{:.2f} - {:.2f}", shares.interval->low, shares.interval->high) : "",
          fmt::format("{:.2f}", 1e-6 * timing.cost.bytes),
          is_in_cache(shares) ? "in cache" : fmt::format("{:.1f}", 100.0 * shares.read_share),
          shares.tensor_share ? fmt::format("{:.1f}", 100.0 * *shares.tensor_share) : "",
          fmt::format("{}{}", timing.layers, timing.is_flushed ? " *" : "")};
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
  HardwareFingerprint hardware = probe_hardware(common.threads);
  if (device.gpu) describe_gpu(hardware, *device.gpu);
  // As many layers as fit are made: into what is free now, not into what the machine has.
  if (!device.gpu) hardware.device_bytes = std::min(hardware.device_bytes, available_memory_bytes());
  if (common.device_memory_bytes > 0)
    hardware.device_bytes = std::min(hardware.device_bytes, common.device_memory_bytes);
  const std::int64_t context = options.context > 0 ? options.context
                               : options.is_prompt ? most
                                                   : std::min<std::int64_t>(usual_context, spec.max_context);
  if (options.is_prompt && context < most)
    throw InputError("--context", std::to_string(context),
                     fmt::format("at least the {} tokens of --prompt", most));

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
                           .most_fill_seconds = options.budget_seconds};
  const BenchWithin made = bench_within(
      checkpoint, engine, setup, device.kind == DeviceKind::cpu ? options.budget_seconds : kNoTimeLimit);
  OpBench& bench = *made.bench;
  const Rates rates{.read_bytes_per_s = 1e9 * hardware.memory_gb_per_s, .tensor_flops = bench.tensor_flops()};

  Table table{.headings = {"op", "tokens", "us", "95 % interval", "MB", "% read", "% tensor", "layers"},
              .alignment = {Align::left, Align::right, Align::right, Align::left, Align::right, Align::right,
                            Align::right, Align::right},
              .rows = {}};
  nlohmann::json results = nlohmann::json::array();
  // Of the processors alone: the GPU is held by this very process, which inside a container has another
  // number there.
  CpuWatch others(::getpid(), device.gpu ? 1 : hardware.cpu_cores);
  look(others);
  std::vector<std::string> by_cublas;
  bool any_flushed = false;
  bool any_in_cache = false;
  int fewest = wanted_layers;
  CutShortOps cut_short;
  const auto begin = std::chrono::steady_clock::now();
  std::size_t waiting = ops.size() * counts.size();
  for (const std::string& op : ops)
    for (const std::int64_t tokens : counts) {
      live.show(fmt::format("timing {}, {}", op, counted(tokens, "token")));
      const double left = options.budget_seconds -
                          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      OpTiming timing;
      timing.op = op;
      timing.tokens = tokens;
      if (left > 0.0 || results.empty())
        timing = bench.time(op, tokens, options.runs, std::max(0.0, left) / static_cast<double>(waiting));
      --waiting;
      live.clear();
      look(others);
      cut_short.add(timing, options.runs);
      if (timing.microseconds.empty()) {
        table.rows.push_back({op, std::to_string(tokens), "not timed", "", "", "", "", ""});
        results.push_back({{"op", op}, {"tokens", tokens}, {"microseconds", nullptr}, {"n", 0}});
        continue;
      }
      const Shares shares = shares_of(timing, rates);
      any_flushed = any_flushed || timing.is_flushed;
      any_in_cache = any_in_cache || is_in_cache(shares);
      if (timing.dense.cublas > 0) by_cublas.push_back(fmt::format("{} at {} tokens", op, tokens));
      if (op != "head") fewest = std::min(fewest, timing.layers);
      table.rows.push_back(row_of(timing, shares));
      results.push_back(to_json(timing, shares));
    }
  if (cut_short.all_untimed(results.size()))
    throw InputError("--budget", fmt::format("{:g} s: {}", options.budget_seconds, cut_short.first_untimed()),
                     "a larger one, or fewer --tokens");
  const std::string where = device.gpu ? device.gpu->facts.name : "cpu: " + hardware.cpu_name;
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "Times are of one layer, MB what it has to read: weights, experts touched, KV cache. Measured here: "
      "{:.0f} GB/s read{}.",
      hardware.memory_gb_per_s,
      rates.tensor_flops > 0.0 ? fmt::format(", {:.0f} TFLOP/s bf16", 1e-12 * rates.tensor_flops) : ""));
  if (fewest < wanted_layers)
    notes.push_back(fmt::format("Only {}, not {}: {}.", counted(fewest, "distinct layer"), wanted_layers,
                                made.has_fewer_layers || cut_short.has_fewer_runs()
                                    ? "no more within --budget"
                                : spec.is_synthetic ? "no more fit into memory"
                                                    : "the model has no more"));
  if (any_flushed)
    notes.emplace_back("* so little that the caches could keep it: other memory is read before each run.");
  if (any_in_cache)
    notes.emplace_back(
        "in cache: faster than memory can be read, so that a share of its rate would say nothing.");
  if (!by_cublas.empty())
    notes.push_back(fmt::format("Dense products by {}, weights copied out of their tiles: {}.", cublas_name(),
                                fmt::join(by_cublas, ", ")));
  if (const std::string note = no_cublas_message(device.kind); !note.empty()) notes.push_back(note + ".");
  if (const std::string note = model_note(spec); !note.empty()) notes.push_back(note + ".");
  for (const std::string& note : cut_short.notes(options.runs, options.budget_seconds)) {
    notes.push_back(note);
    console.warn("moetune: " + note);
  }
  console.result(fmt::format("{}, {} experts, context {}, {}\n", spec.name,
                             name_of(expert_type(spec, engine)), context, where));
  console.result(table.text());
  for (const std::string& note : notes) console.result(wrapped(note, 80, 0));
  nlohmann::json knobs_set = nlohmann::json::object();
  for (const Knob& knob : knobs()) knobs_set[std::string(knob.name)] = knob.get(engine);
  nlohmann::json document = {
      {"model", spec.name},
      {"model_hash", spec.content_hash},
      {"device", where},
      {"driver", hardware.driver},
      {"context", context},
      {"is_prompt", options.is_prompt},
      {"seed", common.seed},
      {"knobs", knobs_set},
      {"read_gb_per_s", hardware.memory_gb_per_s},
      {"tensor_tflops",
       rates.tensor_flops > 0.0 ? nlohmann::json(1e-12 * rates.tensor_flops) : nlohmann::json()},
      {"results", results},
      {"notes", notes}};
  const Disturbances disturbances{.on_processors = others.disturbances(), .on_gpu = {}, .arisen = {}};
  add_to(document, disturbances);
  console.document(document);
  for (const std::string& line : lines_about(disturbances)) console.warn(line);
  return ExitCode::done;
}

}  // namespace moetune
