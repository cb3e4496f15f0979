#include "tuner/commands/study.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "engine/checkpoint.h"
#include "engine/content_hash.h"
#include "engine/data_files.h"
#include "engine/facts/error.h"
#include "engine/facts/size_text.h"
#include "engine/folding.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/presets.h"
#include "engine/probe.h"
#include "engine/tokenizer.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/nearest.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/study_memory.h"
#include "tuner/counted.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/metric_facts.h"
#include "tuner/price_list.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

std::string hash_of(const std::vector<std::int32_t>& tokens) {
  ContentHash hash;
  hash.add(std::as_bytes(std::span(tokens)));
  return hash.hex();
}

std::vector<std::string> warnings_about(const GpuReport& gpu) {
  std::vector<std::string> warnings = {
      "left out on a GPU by this build: prefetch with miss=cpu, tensor_parallel above 1"};
  if (std::string words = shared_memory_warning(gpu.facts); !words.empty())
    warnings.push_back(std::move(words));
  if (!gpu.power_problem.empty()) warnings.push_back("joules_per_token is not known: " + gpu.power_problem);
  if (std::string words = no_cublas_message(DeviceKind::cuda); !words.empty())
    warnings.push_back(std::move(words));
  if (!gpu.idle_problem.empty()) warnings.push_back("idle_watts is not known: " + gpu.idle_problem);
  return warnings;
}

// "NVIDIA H200 x1, compute capability 9.0, 139 GiB, reads 4470 GB/s, link 55.1 GB/s, idle 75 W, driver
// 580.95.05 (CUDA 13.0)"
std::string gpu_text(const HardwareFingerprint& gpu) {
  std::string text = fmt::format("{} x{}, compute capability {}, {}, reads {:.0f} GB/s, link {:.1f} GB/s",
                                 gpu.device, gpu.gpu_count, gpu.compute_capability,
                                 size_text(gpu.device_bytes), gpu.memory_gb_per_s, gpu.link_gb_per_s);
  if (gpu.idle_watts > 0.0) text += fmt::format(", idle {:.0f} W", gpu.idle_watts);
  return text + ", driver " + gpu.driver;
}

// Of all routed experts as they ship.
std::int64_t store_bytes(const ModelSpec& spec) {
  return std::int64_t{spec.moe_layer_count()} * spec.experts * expert_bytes(spec, EngineOptions{});
}

void add_synthetic_remarks(const ModelSpec& spec, Study& study) {
  study.remarks.push_back(
      "synthetic weights have no known accuracy: output_snr_db and router_mass stand in, against the same "
      "weights as they ship");
  const std::int64_t distance = reuse_distance_bytes(spec, default_options(study.device));
  const std::int64_t wanted = cold_reuse_bytes(study.device);
  if (spec.fold > 1 && distance <= wanted)
    study.remarks.push_back(
        fmt::format("folded x{}: the same weights come up again after {}, within {}: times flatter",
                    spec.fold, size_text(distance), size_text(wanted)));
}

Study study_of(const CommonOptions& common, const std::string& model, const Checkpoint& checkpoint,
               const Workload& workload, const HardwareFingerprint& hardware, const DeviceChoice& device,
               double latency_seconds) {
  Study study;
  study.model = checkpoint.spec();
  study.workload = workload;
  study.hardware = hardware;
  study.device = device.kind;
  study.records_apart = device.kind == DeviceKind::cuda;
  study.unused_gpu = unused_gpu_message(device);
  if (device.gpu) study.warnings = warnings_about(*device.gpu);
  study.counts_energy = device.gpu && device.gpu->power_problem.empty();
  if (device.gpu) study.gpu_bus_id = device.gpu->bus_id;
  study.why_cpu = device.why_cpu;
  const TokenSource text = calibration_tokens(checkpoint, common.calibration, 1 << 16);
  study.conditions = {
      {"workload", to_json_value(workload)},   {"calibration", text.description},
      {"calibration_hash", hash_of(text.ids)}, {"device", device.kind == DeviceKind::cuda ? "cuda" : "cpu"},
      {"threads", hardware.cpu_cores},         {"device_memory_bytes", hardware.device_bytes},
      {"latency_seconds", latency_seconds}};
  if (common.usd_per_hour > 0.0) study.conditions["usd_per_hour"] = common.usd_per_hour;
  if (const std::string note = model_note(study.model); !note.empty()) study.conditions["model_note"] = note;
  if (const std::string note = pauses_note(workload); !note.empty()) study.conditions["pauses"] = note;
  if (study.model.is_synthetic)
    add_synthetic_remarks(study.model, study);
  else if (!text.from_text)
    study.remarks.push_back("prompts are " + text.description +
                            ": accuracy is measured on them, not on text");

  EngineTargetSetup setup;
  setup.model_directory = model;
  setup.workload = workload;
  setup.calibration_file = common.calibration;
  setup.device = device.kind;
  if (device.gpu) setup.device_name = device.gpu->facts.name;
  setup.threads = common.threads;
  setup.device_memory_bytes = hardware.device_bytes;
  setup.latency_seconds = latency_seconds;
  setup.usd_per_hour = common.usd_per_hour;
  study.worker_setup = {{"target", "engine"}, {"engine", to_json_value(setup)}};

  const auto check = [model = study.model, workload, kind = device.kind, threads = common.threads](
                         const Configuration& configuration, std::int64_t device_bytes) {
    return objection_of(model, workload, options_of(configuration, kind, threads), device_bytes);
  };
  study.objection = [check, memory = hardware.device_bytes](const Configuration& configuration) {
    return check(configuration, memory);
  };
  study.kind_of_objection =
      [check, model = study.model, workload, kind = device.kind,
       memory = hardware.device_bytes](const Configuration& configuration) -> std::optional<std::string> {
    // Without what would be accepted instead: that differs from one configuration to the next.
    const EngineOptions options = options_of(configuration, kind, 0);
    if (const auto objection = objection_to_load(workload, options))
      return objection->knob + ": " + objection->found;
    if (const auto objection = objection_to_options(model, options, limits_of(workload, options)))
      return objection->knob + ": " + objection->found;
    if (check(configuration, memory)) return "needs more memory than the " + size_text(memory) + " there";
    return std::nullopt;
  };
  return study;
}

// Of this box, from --prices.
double rent_of(const HardwareFingerprint& hardware, const CommonOptions& common) {
  if (common.usd_per_hour > 0.0) throw InputError("--prices", "together with --usd-per-hour", "one of them");
  const PriceList prices = load_price_list(common.prices);
  const PricedBox* box = prices.find(hardware);
  if (box == nullptr || !box->price.usd_per_hour)
    throw InputError(
        "--prices " + common.prices,
        fmt::format("no usd_per_hour for device '{}', gpu_count {}", hardware.device, hardware.gpu_count),
        "a list with this box, or --usd-per-hour");
  return *box->price.usd_per_hour;
}

}  // namespace

std::string model_note(const ModelSpec& model) {
  if (!model.is_synthetic) return "";
  std::string note = "synthetic weights";
  if (model.fold > 1) note += fmt::format(", folded x{}", model.fold);
  if (model.synthetic_routing)
    note += "; routing fitted to published statistics";
  else if (model.experts > 0)
    note += "; routing random";
  if (!model.approximation.empty()) note += "; " + model.approximation;
  return note;
}

std::string study_text(const Study& study) {
  const Workload& workload = study.workload;
  if (study.made_up) return fmt::format("{}, workload {}", study.model.name, workload.name);
  std::string shape = fmt::format("{} + {} tokens", workload.prompt_tokens, workload.output_tokens);
  if (workload.sequences > 1) shape += fmt::format(", {} sequences", workload.sequences);
  if (workload.rounds > 1) shape += fmt::format(", {} rounds", workload.rounds);
  const std::string note = model_note(study.model);
  std::string notes;
  for (const char* note_on : {"workload_cut", "pauses"})
    if (study.conditions.contains(note_on)) notes += "\n" + study.conditions.at(note_on).get<std::string>();
  const std::string model = study.model.name + (note.empty() ? "" : " (" + note + ")");
  if (study.device == DeviceKind::cuda)
    return fmt::format("{}, workload {} ({}){}\ncuda: {}", model, workload.name, shape, notes,
                       gpu_text(study.hardware));
  const std::string why_cpu = study.why_cpu.empty() ? "" : "\nno GPU: " + study.why_cpu;
  return fmt::format("{}, workload {} ({}){}\n{}: {}, {}, {}, {}{}", model, workload.name, shape, notes,
                     study.hardware.device, study.hardware.cpu_name,
                     counted(study.hardware.cpu_cores, "thread"), study.hardware.simd,
                     size_text(study.hardware.device_bytes), why_cpu);
}

std::vector<Study> engine_studies(const CommonOptions& asked, double latency_seconds) {
  CommonOptions common = asked;
  const DeviceChoice device = choose_device(common.device, [] { return ask_for_gpu(); });
  std::string model =
      names_preset(common.model) ? common.model : fs::absolute(model_directory(common.model)).string();
  auto checkpoint = open_checkpoint(model);
  checkpoint->check_finite();
  std::map<std::string, std::string> cuts;
  const std::vector<Workload> workloads = workloads_of(common, checkpoint->spec(), &cuts);
  HardwareFingerprint hardware = probe_hardware(common.threads);
  if (device.gpu) describe_gpu(hardware, *device.gpu);
  if (!common.prices.empty()) common.usd_per_hour = rent_of(hardware, common);
  if (common.device_memory_bytes > 0)
    hardware.device_bytes = std::min(hardware.device_bytes, common.device_memory_bytes);
  std::string not_folded;
  if (checkpoint->spec().is_synthetic && checkpoint->spec().fold == 1) {
    const Fold fold = fold_for(checkpoint->spec(), workloads, hardware, device.kind);
    if (fold.fold == 0)
      not_folded = fmt::format(
          "not folded, although it does not fit: {}. Below expert_cache=1 misses read a file of {} in the "
          "cache folder",
          fold.objection, size_text(store_bytes(checkpoint->spec())));
    if (fold.fold > 1) {
      model = with_fold(checkpoint->spec().name, fold.fold);
      checkpoint = open_checkpoint(model);
    }
  }
  std::vector<Study> studies;
  for (const Workload& workload : workloads) {
    studies.push_back(study_of(common, model, *checkpoint, workload, hardware, device, latency_seconds));
    if (!not_folded.empty()) studies.back().remarks.push_back(not_folded);
    if (const auto cut = cuts.find(workload.name); cut != cuts.end())
      studies.back().conditions["workload_cut"] = "workload " + workload.name + " " + cut->second;
  }
  return studies;
}

nlohmann::json timing_setup(const Study& study, double seconds) {
  nlohmann::json setup = study.worker_setup;
  nlohmann::json& target = setup.at(setup.at("target").get<std::string>());
  target["timing_only"] = true;
  if (study.made_up) return setup;
  target["latency_seconds"] = seconds;
  target["longest_run_seconds"] = 0.0;  // of what the search has measured to its end
  return setup;
}

nlohmann::json recording_setup(const Study& study) {
  nlohmann::json setup = timing_setup(study, 0.0);
  setup.at(setup.at("target").get<std::string>())["recording_only"] = true;
  return setup;
}

Study with_folder(Study study, const std::string& folder) {
  if (!study.made_up) study.worker_setup["engine"]["study_folder"] = folder;
  return study;
}

Study with_run_limit(Study study, double seconds) {
  if (!study.made_up) study.worker_setup["engine"]["longest_run_seconds"] = seconds;
  return study;
}

Study with_slo(Study study, const Slo& slo) {
  study.workload.slo = slo;
  study.conditions["workload"] = to_json_value(study.workload);
  if (!study.made_up) study.worker_setup["engine"]["workload"] = to_json_value(study.workload);
  return study;
}

Study synthetic_study(const CommonOptions& common, const std::string& settings) {
  Study study;
  study.made_up = true;
  study.model.name = "synthetic";
  study.model.content_hash = "synthetic";
  study.model.experts_per_token = 8;
  study.workload.name = common.workload;
  study.hardware.device = "synthetic";
  study.worker_setup = {{"target", "synthetic"},
                        {"synthetic", parse_json(settings.empty() ? "{}" : settings, "--synthetic")}};
  study.conditions = {{"synthetic", study.worker_setup.at("synthetic")}};
  study.records_apart = study.conditions.at("synthetic").contains("records_apart");
  study.remarks.push_back("synthetic target: every number below is made up");
  study.objection = [](const Configuration&) -> std::optional<std::string> { return std::nullopt; };
  study.kind_of_objection = study.objection;
  return study;
}

}  // namespace moetune
