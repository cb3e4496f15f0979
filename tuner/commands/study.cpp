#include "tuner/commands/study.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "engine/checkpoint.h"
#include "engine/content_hash.h"
#include "engine/data_files.h"
#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"
#include "engine/facts/knobs.h"
#include "engine/folding.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/pinned_pool.h"
#include "engine/presets.h"
#include "engine/probe.h"
#include "engine/tokenizer.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/nearest.h"
#include "tuner/commands/quantities.h"
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

constexpr auto space_suffix = ".json";
constexpr std::uint64_t most_looked_at = 1 << 16;  // for a message: larger spaces are looked at in part

std::string size_in_words(std::int64_t bytes) {
  return value_text("device_bytes", static_cast<double>(bytes));
}

KnownParameter knob_table() {
  return [](const std::string& name, const std::string& value) {
    EngineOptions ignored;
    set_knob(ignored, name, value);
  };
}

std::string hash_of(const std::vector<std::int32_t>& tokens) {
  ContentHash hash;
  hash.add(std::as_bytes(std::span(tokens)));
  return hash.hex();
}

// A dense model chooses no experts.
bool is_choice(const Study& study, const Knob& knob) {
  return knob.name != "top_k" || study.model.experts_per_token > 0;
}

// Why a recommendation would not do although the folded model runs: what the model itself takes.
std::optional<std::string> objection_unfolded(const ModelSpec& folded, const Workload& workload,
                                              const EngineOptions& options, std::int64_t bytes) {
  if (folded.fold <= 1 || bytes <= 0) return std::nullopt;
  ModelSpec whole = folded;
  whole.fold = 1;
  const std::int64_t needed = plan_memory(whole, options, limits_of(workload, options)).total();
  if (needed <= bytes) return std::nullopt;
  return fmt::format("the model itself, not folded, would take {}, {} more than the {} there",
                     size_in_words(needed), size_in_words(needed - bytes), size_in_words(bytes));
}

// Of the expert cache; 0: none fits.
double largest_share(const Study& study, EngineOptions options) {
  const EngineLimits limits = limits_of(study.workload, options);
  const double share = largest_cache_fraction(study.model, options, limits, study.hardware.device_bytes);
  if (!study.is_for_launch) return share;
  constexpr int steps = 64;  // largest_cache_fraction()'s own
  for (auto step = static_cast<int>(std::lround(share * steps)); step >= 1; --step) {
    options.expert_cache_fraction = static_cast<double>(step) / steps;
    if (!objection_unfolded(study.model, study.workload, options, study.hardware.device_bytes) &&
        !objection_to_options(study.model, options, limits))
      return options.expert_cache_fraction;
  }
  return 0.0;
}

// The value a knob has when nobody sets it, as a space would write it.
std::string default_value(const Study& study, const Knob& knob) {
  if (knob.name == "top_k") return std::to_string(study.model.experts_per_token);
  EngineOptions options = default_options(study.device);
  if (knob.name == "expert_cache" && !study.made_up) {
    const double share = largest_share(study, options);
    // Nothing fits: the whole cache is asked for, and the objection to it says what is missing.
    if (share > 0.0) options.expert_cache_fraction = share;
  }
  return knob.get(options);
}

std::vector<std::string> warnings_about(const GpuReport& gpu) {
  std::vector<std::string> warnings = {
      "left out on a GPU by this build: prefetch with miss=cpu, tensor_parallel above 1"};
  if (std::string words = shared_memory_warning(gpu.facts); !words.empty())
    warnings.push_back(std::move(words));
  if (!gpu.power_problem.empty()) warnings.push_back("joules_per_token is not known: " + gpu.power_problem);
  if (std::string words = no_cublas_message(DeviceKind::cuda); !words.empty()) warnings.push_back(std::move(words));
  return warnings;
}

// "NVIDIA H200 x1, compute capability 9.0, 139 GiB, reads 4470 GB/s, link 55.1 GB/s, idle 75 W, driver
// 580.95.05 (CUDA 13.0)"
std::string gpu_text(const HardwareFingerprint& gpu) {
  std::string text = fmt::format("{} x{}, compute capability {}, {}, reads {:.0f} GB/s, link {:.1f} GB/s",
                                 gpu.device, gpu.gpu_count, gpu.compute_capability,
                                 size_in_words(gpu.device_bytes), gpu.memory_gb_per_s, gpu.link_gb_per_s);
  if (gpu.idle_watts > 0.0) text += fmt::format(", idle {:.0f} W", gpu.idle_watts);
  return text + ", driver " + gpu.driver;
}

// A host cache must not hold what a folded model is about to read again: ten times its size is far enough.
constexpr std::int64_t cache_distance = 10;
// The same for a GPU's L2 cache, the largest of which hold 60 MB (H200) to 126 MB (B200).
constexpr std::int64_t gpu_reuse_bytes = std::int64_t{256} << 20;

// Where a synthetic model does not fit as it is: how far it is folded, for the most demanding workload.
Fold fold_for(const ModelSpec& spec, const std::vector<Workload>& workloads,
              const HardwareFingerprint& hardware, DeviceKind device) {
  const std::int64_t distance = cold_reuse_bytes(device);
  Fold most;
  for (const Workload& workload : workloads) {
    const Fold fold = choose_fold(spec, default_options(device), limits_of(workload, default_options(device)),
                                  hardware.device_bytes, distance);
    if (fold.fold == 0) return fold;
    if (fold.fold > most.fold) most = fold;
  }
  // What does not fit is cached, and a GPU's cache reads pinned memory.
  if (device == DeviceKind::cuda && most.fold > 1)
    for (ModelSpec folded = spec; folded.fold < spec.layers; ++folded.fold) {
      if (folded.fold < most.fold) continue;
      if (reuse_distance_bytes(folded, default_options(device)) <= distance) break;
      most.fold = folded.fold;
      if (std::int64_t{distinct_moe_layers(folded)} * spec.experts *
              expert_bytes(folded, default_options(device)) <=
          pinned_limit(folded))
        break;
    }
  return most;
}

// What neither the load nor the model takes, and what does not fit; bytes: 0: memory is not looked at.
std::optional<std::string> objection_of(const ModelSpec& model, const Workload& workload,
                                        const EngineOptions& options, std::int64_t bytes) {
  if (const auto objection = objection_to_load(workload, options)) return objection->text();
  return objection_to(model, options, limits_of(workload, options), bytes);
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
  const bool is_gpu = study.device == DeviceKind::cuda;
  const std::int64_t wanted = cold_reuse_bytes(study.device);
  if (spec.fold > 1 && distance <= wanted)
    study.remarks.push_back(fmt::format(
        "folded x{}: the same weights come up again after {}, within {}: times flatter", spec.fold,
        size_in_words(distance),
        is_gpu ? size_in_words(gpu_reuse_bytes) : fmt::format("{} times the last cache", cache_distance)));
}

Study study_of(const CommonOptions& common, const std::string& model, const Checkpoint& checkpoint,
               const Workload& workload, const HardwareFingerprint& hardware, const DeviceChoice& device,
               double latency_seconds) {
  Study study;
  study.model = checkpoint.spec();
  study.workload = workload;
  study.hardware = hardware;
  study.device = device.kind;
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
    if (check(configuration, memory)) return "needs more memory than the " + size_in_words(memory) + " there";
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
                     size_in_words(study.hardware.device_bytes), why_cpu);
}

bool is_about_memory(const Study& study, const Configuration& configuration) {
  return !study.made_up && study.objection(configuration) &&
         !objection_of(study.model, study.workload, options_of(configuration, study.device, 0), 0);
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
          fold.objection, size_in_words(store_bytes(checkpoint->spec())));
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

Study for_launch(Study study) {
  if (study.made_up || study.model.fold <= 1) return study;
  study.is_for_launch = true;
  study.remarks.push_back(fmt::format(
      "folded x{} to be measured; what the model itself does not fit with is left out", study.model.fold));
  const auto also = [](const auto& first, const auto& then) {
    return [first, then](const Configuration& configuration) -> std::optional<std::string> {
      if (const auto objection = first(configuration)) return objection;
      return then(configuration);
    };
  };
  const auto whole = [model = study.model, workload = study.workload, kind = study.device,
                      memory = study.hardware.device_bytes](const Configuration& configuration) {
    return objection_unfolded(model, workload, options_of(configuration, kind, 0), memory);
  };
  study.objection = also(study.objection, whole);
  study.kind_of_objection = also(study.kind_of_objection,
                                 [whole](const Configuration& configuration) -> std::optional<std::string> {
                                   if (whole(configuration)) return "does not fit without folding";
                                   return std::nullopt;
                                 });
  return study;
}

std::int64_t cold_reuse_bytes(DeviceKind device) {
  return device == DeviceKind::cuda ? gpu_reuse_bytes : cache_distance * last_level_cache_bytes();
}

nlohmann::json timing_setup(const Study& study, double seconds) {
  nlohmann::json setup = study.worker_setup;
  nlohmann::json& target = setup.at(setup.at("target").get<std::string>());
  target["timing_only"] = true;
  if (!study.made_up) target["latency_seconds"] = seconds;
  return setup;
}

Study with_folder(Study study, const std::string& folder) {
  if (!study.made_up) study.worker_setup["engine"]["study_folder"] = folder;
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
  study.remarks.push_back("synthetic target: every number below is made up");
  study.objection = [](const Configuration&) -> std::optional<std::string> { return std::nullopt; };
  study.kind_of_objection = study.objection;
  return study;
}

std::vector<std::string> space_names() {
  std::vector<std::string> names;
  const std::string folder = search_spaces_folder();
  if (folder.empty()) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(space_suffix) && !file.ends_with(".schema.json"))
      names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

SearchSpace space_for(const Study& study, const std::string& name_or_file) {
  if (study.model.experts_per_token == 0)
    throw InputError("--model", study.model.name + " has no experts: there is nothing to search",
                     "a mixture of experts; measure takes dense models");
  const SpaceSymbols symbols = {{"native", study.model.experts_per_token},
                                {"cores", std::max(1, study.hardware.cpu_cores)}};
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(space_suffix))
    return load_search_space(name_or_file, knob_table(), symbols);
  const std::vector<std::string> names = space_names();
  if (std::ranges::find(names, name_or_file) == names.end()) {
    std::string accepted;
    for (const std::string& name : names) accepted += name + ", ";
    throw InputError("--space", "no space named '" + name_or_file + "'", accepted + "or a JSON file");
  }
  return load_search_space(search_spaces_folder() + "/" + name_or_file + space_suffix, knob_table(), symbols);
}

Configuration default_configuration(const Study& study, const SearchSpace& space) {
  Configuration configuration;
  for (const Parameter& parameter : space.parameters)
    configuration.values[parameter.name] = default_value(study, knob_named(parameter.name));
  return configuration;
}

Configuration configuration_from_settings(const Study& study, const std::vector<std::string>& settings) {
  Configuration configuration;
  for (const Knob& knob : knobs())
    if (knob.in_default_space && is_choice(study, knob))
      configuration.values[std::string(knob.name)] = default_value(study, knob);
  for (const auto& [name, value] : parse_assignments("--set", settings, setting_words)) {
    EngineOptions options;
    set_knob(options, name, value);
    // Canonical, so that the same choice has one spelling everywhere; "native" is a number for the model at
    // hand.
    const Knob& knob = knob_named(name);
    const bool is_native = knob.name == "top_k" && options.top_k == 0;
    configuration.values[name] =
        is_native ? std::to_string(study.model.experts_per_token) : knob.get(options);
  }
  return configuration;
}

std::string nearest_misfit(const Study& study, const SearchSpace& space) {
  ModelSpec launched = study.model;
  if (study.is_for_launch) launched.fold = 1;
  std::optional<Configuration> nearest;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t rank = 0; rank < std::min(space.declared_size(), most_looked_at); ++rank) {
    const Configuration configuration = space.at(rank);
    const EngineOptions options = options_of(configuration, study.device, 0);
    if (space.objection(configuration) || objection_of(study.model, study.workload, options, 0)) continue;
    const std::int64_t bytes = plan_memory(launched, options, limits_of(study.workload, options)).total();
    if (bytes >= least) continue;
    least = bytes;
    nearest = configuration;
  }
  if (!nearest) return {};
  std::string text =
      fmt::format("no configuration fits: the nearest, {}, needs {}, {} more than the {} there",
                  nearest->key(), size_in_words(least), size_in_words(least - study.hardware.device_bytes),
                  size_in_words(study.hardware.device_bytes));
  // One more step of one knob, in the order of what it costs in accuracy.
  const EngineOptions options = options_of(*nearest, study.device, 0);
  const EngineLimits limits = limits_of(study.workload, options);
  const double share = largest_share(study, options);
  if (share > 0.0) return text + fmt::format("; expert_cache={} would free them", number_text(share));
  constexpr std::array candidates = {std::pair{"expert_quant", "int4"}, std::pair{"kv_type", "bf16"},
                                     std::pair{"dense_quant", "int8"}, std::pair{"dense_quant", "int4"}};
  for (const auto& [knob, value] : candidates) {
    EngineOptions changed = options;
    set_knob(changed, knob, value);
    if (objection_to(study.model, changed, limits, 0)) continue;
    const double fitting = largest_share(study, changed);
    if (fitting == 0.0) continue;
    changed.expert_cache_fraction = std::min(changed.expert_cache_fraction, fitting);
    if (!objection_to(study.model, changed, limits, study.hardware.device_bytes))
      return text + fmt::format("; {}={} with expert_cache={} would free them", knob, value,
                                number_text(changed.expert_cache_fraction));
  }
  return text + "; no knob frees them: a shorter workload or more --device-memory does";
}

}  // namespace moetune
