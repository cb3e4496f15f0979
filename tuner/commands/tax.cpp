// moetune tax: where the time of a decoded token and of a prompt goes, beside a dense model of the same size
// at work. In this process: what is compared are parts of one run, not runs of several processes. Start at
// run_tax().
#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/sync_tax/nsys_reader.h"
#include "engine/sync_tax/timeline.h"
#include "engine/sync_tax/torch_reader.h"
#include "kernels/device_trace.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/partial_file.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_memory.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/commands/tax_causes.h"
#include "tuner/commands/tax_limit.h"
#include "tuner/commands/tax_model.h"
#include "tuner/commands/tax_reading.h"
#include "tuner/commands/tax_text.h"
#include "tuner/counted.h"
#include "tuner/json_facts.h"
#include "tuner/progress.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/tax_run.h"

namespace moetune {
namespace {

struct TaxOptions {
  CommonOptions common;
  std::vector<std::string> settings;
  double budget_seconds = 5.0;
  bool without_dense = false;
  bool sweep = false;
  std::string timeline;
  std::string import;
  std::int64_t steps = 0;  // in the imported trace; 0: not told
};

void print_phase(const Console& console, const std::string& title, const PhaseTax& phase,
                 const PhaseTax* dense) {
  if (!phase.typical.refused.empty()) {
    console.result(fmt::format("{}: no breakdown: {}\n", title, phase.typical.refused));
    return;
  }
  std::vector<BreakdownColumn> columns = {{title, &phase.typical}};
  const bool has_dense = dense != nullptr && dense->typical.refused.empty();
  if (has_dense) columns.push_back({"dense", &dense->typical});
  console.result(breakdown_table(columns) + "\n");
  console.result(rows_table(columns) + "\n");
  if (dense != nullptr && !has_dense)
    console.result("dense twin: no breakdown: " + dense->typical.refused + "\n");
}

nlohmann::json to_json_value(const DeviceRecordingCost& cost) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const DeviceRecordingCost::Point& point : cost.kernels)
    kernels.push_back({{"length_ns", point.length_ns}, {"added_ns", point.added_ns}});
  return {{"kernels", std::move(kernels)}, {"launch_call_ns", cost.launch_call_ns}};
}

void write_timeline(PartialFile& file, const TaxResult& tax, const std::string& title) {
  const std::string text = timeline_of(tax.last_steps, tax.last_intervals, title, tax.last_records);
  file.write(text.data(), text.size());
  file.finish();
}

TaxModel model_of(const TaxOptions& options, const Study& study, const Configuration& configuration) {
  const EngineTargetSetup setup = engine_target_setup_from_json(study.worker_setup.at("engine"), "study");
  return {open_checkpoint(setup.model_directory),
          options_of(configuration, study.device, options.common.threads), study.workload};
}

bool is_sqlite(const std::string& path) {
  std::array<char, 16> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()).starts_with("SQLite format 3");
}

ExitCode import_trace(const TaxOptions& options) {
  if (options.sweep || !options.timeline.empty() || !options.settings.empty())
    throw InputError("--import", "with --sweep, --timeline or --set",
                     "these without --import: a trace is what it is");
  const ImportedTrace trace =
      is_sqlite(options.import) ? read_nsys_export(options.import) : read_torch_trace(options.import);
  options.common.console.document(imported_json(options.import, trace, options.steps));
  options.common.console.result(imported_text(options.import, trace, options.steps));
  return ExitCode::done;
}

nlohmann::json document_of(const Study& study, const Configuration& configuration, const TaxResult& tax,
                           const std::optional<TaxResult>& dense, const std::string& dense_name) {
  nlohmann::json document = {{"model", study.model.name},
                             {"model_hash", study.model.content_hash},
                             {"workload", to_json_value(study.workload)},
                             {"hardware", to_json_value(study.hardware)},
                             {"configuration", to_json_value(configuration)},
                             {"decode", to_json_value(tax.decode)},
                             {"prefill", to_json_value(tax.prefill)},
                             {"recording",
                              {{"inside_ns", tax.cost.inside_ns},
                               {"outside_ns", tax.cost.outside_ns},
                               {"unlabelled_kernels", tax.unlabelled_kernels},
                               {"runs", tax.recorded_runs}}},
                             {"host", to_json_value(tax.host)}};
  if (tax.decode.typical.refused.empty())
    if (const std::string words = cause_of_slowest(tax.decode, tax.use); !words.empty())
      document["decode"]["slowest_hundredth"]["cause"] = words;
  if (tax.is_of_kernels) document["recording"]["device"] = to_json_value(tax.device_cost);
  if (tax.use.busy_percent) document["driver"]["busy_percent"] = *tax.use.busy_percent;
  if (tax.use.link_gb_per_s) document["driver"]["link_gb_per_s"] = *tax.use.link_gb_per_s;
  if (!tax.use.held_down_by.empty()) document["driver"]["held_down_by"] = tax.use.held_down_by;
  document["tax_limit"] = tax_limit_json(tax.decode);
  if (study.model.is_synthetic) document["synthetic_weights"] = true;
  if (dense)
    document["dense_twin"] = {{"name", dense_name},
                              {"decode", to_json_value(dense->decode)},
                              {"prefill", to_json_value(dense->prefill)}};
  return document;
}

ExitCode run_tax(const TaxOptions& options) {
  if (!options.import.empty()) return import_trace(options);
  if (options.steps > 0) throw InputError("--steps", "given without --import", "both, or --import alone");
  const Console& console = options.common.console;
  const std::vector<Study> studies = engine_studies(options.common, options.budget_seconds);
  if (studies.size() != 1)
    throw InputError("--workload", "'" + options.common.workload + "'", "one workload for tax");
  const Study& study = studies.front();
  if (study.device == DeviceKind::cuda)
    if (const std::string problem = DeviceTrace::why_not(); !problem.empty())
      throw InputError("--device", "cuda: kernels cannot be recorded here: " + problem, "cpu");
  const Configuration configuration = configuration_from_settings(study, options.settings);
  if (const auto objection = study.objection(configuration)) {
    if (is_about_memory(study, configuration))
      throw NoFeasibleConfiguration(configuration.key() + " does not fit: " + *objection);
    throw InputError("--set", *objection, "");
  }
  std::optional<PartialFile> timeline;
  if (!options.timeline.empty()) timeline.emplace("--timeline", options.timeline);
  for (const std::string& remark : study.remarks) console.log(remark);
  if (!study.unused_gpu.empty()) console.warn(study.unused_gpu);

  const TaxModel model = model_of(options, study, configuration);
  const TaxOfModel measured = model.tax(options.common, options.budget_seconds, study.model.name);
  const TaxResult& tax = measured.result;
  if (timeline) write_timeline(*timeline, tax, study.model.name);

  std::optional<TaxResult> dense;
  std::string dense_name;
  if (!options.without_dense && study.model.moe_layer_count() > 0) {
    const TaxModel twin = dense_twin_of(model);
    if (const auto objection = twin.objection(study.hardware.device_bytes)) {
      console.warn("no dense twin beside it: " + *objection);
    } else {
      dense = twin.tax(options.common, options.budget_seconds, "dense twin").result;
      dense_name =
          fmt::format("{} ({} wide)", twin.checkpoint->spec().name, twin.checkpoint->spec().dense_inner);
    }
  }

  nlohmann::json document = document_of(study, configuration, tax, dense, dense_name);
  console.result(study_text(study));
  console.result("configuration: " + configuration.key() + "\n");
  print_phase(console, "decode, one step", tax.decode, dense ? &dense->decode : nullptr);
  if (tax.decode.typical.refused.empty()) {
    console.result(slowest_text(tax.decode) + "\n");
    if (const std::string words = cause_of_slowest(tax.decode, tax.use); !words.empty())
      console.result(wrapped(words, 80, 0) + "\n");
  }
  if (const std::string words = host_text(tax.host); !words.empty()) console.result(words + "\n");
  print_phase(console, "prefill, one prompt", tax.prefill, dense ? &dense->prefill : nullptr);
  if (!tax.rounds.empty()) {
    console.result(rounds_table(tax.rounds) + "\n");
    console.result(task_text(tax.task) + "\n");
    document["task"] = to_json_value(tax.task);
    for (const RoundTax& round : tax.rounds) document["rounds"].push_back(to_json_value(round.whole));
  }
  if (options.sweep) {
    const SweepCost cost = sweep_cost(model, measured, options.budget_seconds, study.hardware.device_bytes);
    console.log(fmt::format("sweep: {}, each of at least {} runs, whatever --budget says: about {}",
                            counted(cost.points, "point"), fewest_tax_runs(study.device),
                            duration_text(cost.seconds)));
    const std::vector<SweepPoint> sequences =
        sweep_sequences(model, options.common, options.budget_seconds, study.hardware.device_bytes);
    const std::vector<SweepPoint> prompts =
        sweep_prompts(model, options.common, options.budget_seconds, study.hardware.device_bytes);
    console.result(sweep_table("sequences", sequences) + "\n\n" + sweep_table("prompt", prompts) + "\n");
    std::string words =
        "In brackets: the 95 % interval of the median over the runs of a point, widened to hold the value "
        "itself; r: from the least to the most of them, where they are fewer than 6. A larger --budget takes "
        "more.";
    if (study.workload.rounds > 1)
      words += fmt::format(" Swept with the first of the {} rounds.", study.workload.rounds);
    console.result(wrapped(words, 80, 0) + "\n");
    document["sweep"] = {{"rounds", 1},
                         {"sequences", to_json_value(sequences, "sequences")},
                         {"prompt_tokens", to_json_value(prompts, "prompt_tokens")}};
  }
  console.document(document);
  if (const std::string words = tax_conclusion(tax, dense); !words.empty())
    console.result(wrapped(words + " " + tax_limit_text(tax.decode), 80, 0) + "\n");
  console.result(wrapped(how_to_read_tax(tax, study.model, dense_name), 80, 0));
  if (timeline)
    console.result(options.timeline + ": the last recorded run, for chrome://tracing or ui.perfetto.dev");
  return tax.decode.typical.refused.empty() ? ExitCode::done : ExitCode::indeterminate;
}

}  // namespace

Command add_tax_command(CLI::App& program) {
  auto options = std::make_shared<TaxOptions>();
  CLI::App& command = add_subcommand(
      program, "tax", "Where a token's time goes, against a dense baseline of the same active size",
      "Communication, expert loading, synchronisation and launch gaps are the tax; with router, compute and "
      "what is unexplained "
      "they add up to the token's time.\n\n"
      "  moetune tax\n"
      "  moetune tax --set expert_cache=0.5 --timeline run.json\n"
      "  moetune tax --workload agent --sweep --json\n"
      "  moetune tax --import report.sqlite --steps 64\n\n"
      "Exit codes: 0 done, 2 bad input, 4 does not fit into memory, 5 recording changed the times too much "
      "to be believed.");
  add_repeated_option(command, "--set", options->settings, "KNOB=VALUE",
                      "Change a knob; any number of times; see 'moetune list knobs'");
  add_parsed_option(command, "--budget", options->budget_seconds, parse_duration_seconds, "90s|20m|2h",
                    "Time for the model, again for the dense twin, and for each of the two sweeps; no "
                    "measurement takes fewer than 7 runs of the workload (8 on a GPU), however long they are",
                    "5s");
  add_flag(command, "--no-dense", options->without_dense, "Without the dense model beside it");
  add_flag(command, "--sweep", options->sweep,
           "Also the tax against sequences side by side (1 to 32) and against prompt length: about ten more "
           "measurements; how long they take is said before they begin");
  add_text_option(
      command, "--timeline", options->timeline, "FILE",
      "Write the last recorded run as a Chrome trace; of a GPU with its kernels, as --import reads them");
  add_text_option(
      command, "--import", options->import, "FILE",
      "A trace of another server instead: nsys export --type sqlite, or torch.profiler's JSON (also .gz)");
  add_parsed_option(
      command, "--steps", options->steps,
      [](const std::string& flag, const std::string& text) {
        return parse_whole_number(flag, text, 1, std::numeric_limits<std::int64_t>::max());
      },
      "N", "With --import: how many steps the trace holds, to show one of them");
  add_common_options(command, options->common, {.model = true, .workload = true});
  return {&command, [options] { return run_tax(*options); }};
}

}  // namespace moetune
