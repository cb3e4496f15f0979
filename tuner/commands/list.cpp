// moetune list: what there is to choose from.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/data_files.h"
#include "engine/dense_shapes.h"
#include "engine/engine.h"
#include "engine/facts/knobs.h"
#include "engine/facts/workload.h"
#include "engine/presets.h"
#include "engine/probe.h"
#include "engine/shard.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/gpu_probe.h"
#include "tuner/commands/nearest.h"
#include "tuner/commands/study.h"
#include "tuner/commands/study_space.h"
#include "tuner/commands/table.h"
#include "tuner/export/claims.h"
#include "tuner/export/knob_names.h"
#include "tuner/export/server_table.h"
#include "tuner/hardware_catalogue.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"
#include "tuner/searcher.h"
#include "tuner/staleness.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// Rows of one list, for people and for programs.
struct Listing {
  Table table = {};
  nlohmann::json document = nlohmann::json::array();
  std::string when_empty = {};
  std::string remarks = {};  // below the table
};

std::string_view name_of(SwitchCost cost) {
  switch (cost) {
    case SwitchCost::none:
      return "nothing";
    case SwitchCost::graph:
      return "graph";
    case SwitchCost::cache:
      return "cache";
    case SwitchCost::weights:
      return "weights";
    case SwitchCost::process:
      return "process";
  }
  return "?";
}

// Bytes of the weights, or of those that one token reads: experts in one type, everything else in bf16.
std::int64_t bytes_in(const ModelSpec& published, NumberType experts, bool only_active) {
  ModelSpec spec = published;
  spec.dense_type = NumberType::bf16;
  spec.table_type = NumberType::bf16;
  spec.checkpoint_type = experts;
  const Shard whole;
  std::int64_t bytes = dense_bytes(spec, {}, whole);
  // One row of the embedding is read, not the table.
  if (only_active && !spec.tied_embeddings) bytes -= model_shape(spec, {}, whole).embedding.layout().bytes;
  if (spec.moe_layer_count() == 0) return bytes;
  return bytes + std::int64_t{spec.moe_layer_count()} *
                     (only_active ? spec.experts_per_token : spec.experts) *
                     expert_layout(spec, {}, whole).bytes;
}

std::string gigabytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes) / 1e9;
  if (value >= 1000.0) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}g}", value, value < 1.0 ? 2 : 3);
}

Listing list_models() {
  Listing listing{.table = {.headings = {"model", "layers", "experts", "top_k", "ships", "bf16", "active",
                                         "int4", "active"},
                            .alignment = {Align::left, Align::right, Align::right, Align::right, Align::left,
                                          Align::right, Align::right, Align::right, Align::right}},
                  .when_empty = "no model comes with this build; --model DIR takes a checkpoint"};
  std::vector<std::string> names = model_names();
  const std::vector<std::string> presets = preset_names();
  names.insert(names.end(), presets.begin(), presets.end());
  listing.remarks = wrapped(
      "GB in bf16 and with int4 routed experts: all weights, and those that are active for one token. ships: "
      "the published type of the experts.",
      80, 0);
  if (!presets.empty())
    listing.remarks += "\n" + wrapped(
                                  "All but the embedded tiny-moe are presets: published geometry, synthetic "
                                  "weights, overrides such as deepseek-v3:layers=24,top_k=4.",
                                  80, 0);
  for (const std::string& name : names) {
    const bool is_preset = names_preset(name);
    const Preset preset = is_preset ? open_preset(name) : Preset{};
    const ModelSpec spec = is_preset ? preset.spec : spec_of(*open_checkpoint(name));
    const std::string type(name_of(spec.checkpoint_type));
    std::vector<std::string> row{name, std::to_string(spec.layers), std::to_string(spec.experts),
                                 std::to_string(spec.experts_per_token), type};
    nlohmann::json bytes;
    for (const NumberType experts : {NumberType::bf16, NumberType::int4}) {
      const std::int64_t total = bytes_in(spec, experts, false);
      const std::int64_t active = bytes_in(spec, experts, true);
      row.push_back(gigabytes(total));
      row.push_back(gigabytes(active));
      bytes[std::string(name_of(experts))] = {{"total", total}, {"per_token", active}};
    }
    listing.table.rows.push_back(std::move(row));
    if (is_preset && !spec.approximation.empty())
      listing.remarks += "\n" + wrapped(name + ": " + model_note(spec), 80, 2);
    nlohmann::json entry = {{"name", name},
                            {"architecture", spec.architecture},
                            {"layers", spec.layers},
                            {"experts", spec.experts},
                            {"top_k", spec.experts_per_token},
                            {"type", type},
                            {"model_hash", spec.content_hash},
                            {"synthetic_weights", is_preset},
                            {"bytes", bytes}};
    if (is_preset) {
      entry["source"] = preset.source;
      entry["approximation"] = spec.approximation;
    } else {
      entry["directory"] = model_directory(name);
    }
    listing.document.push_back(std::move(entry));
  }
  return listing;
}

Listing list_spaces() {
  Listing listing{.table = {.headings = {"space", "knobs", "what for"}},
                  .when_empty = "no space comes with this build"};
  for (const std::string& name : space_names()) {
    const std::string file = search_spaces_folder() + "/" + name + ".json";
    const nlohmann::json space = read_json_file(file);
    const JsonFields fields(space, file);
    const std::string description = fields.text_or("description", "");
    const std::size_t knob_count = fields.array("parameters").size();
    listing.table.rows.push_back({name, std::to_string(knob_count), description});
    listing.document.push_back(
        {{"name", name}, {"file", file}, {"knobs", knob_count}, {"description", description}});
  }
  return listing;
}

Listing list_workloads() {
  Listing listing{
      .table = {
          .headings = {"workload", "prompt", "output", "sequences", "rounds", "default SLO"},
          .alignment = {Align::left, Align::right, Align::right, Align::right, Align::right, Align::left}}};
  for (const std::string& name : workload_names()) {
    const Workload workload = workload_named(name);
    listing.table.rows.push_back({name, std::to_string(workload.prompt_tokens),
                                  std::to_string(workload.output_tokens), std::to_string(workload.sequences),
                                  std::to_string(workload.rounds),
                                  fmt::format("{} {:g} ms", workload.slo.metric, workload.slo.limit_ms)});
    listing.document.push_back(to_json_value(workload));
  }
  return listing;
}

Listing list_knobs() {
  Listing listing{.table = {.headings = {"knob", "switch costs", "what it is, and what it takes"}}};
  for (const Knob& knob : knobs()) {
    listing.table.rows.push_back({std::string(knob.name) + (knob.in_default_space ? " *" : ""),
                                  std::string(name_of(knob.switch_cost)),
                                  fmt::format("{}: {}", knob.meaning, knob.accepted)});
    listing.document.push_back({{"name", knob.name},
                                {"unit", knob.unit},
                                {"accepted", knob.accepted},
                                {"switch_cost", name_of(knob.switch_cost)},
                                {"changes_output", knob.changes_output},
                                {"default_space", knob.in_default_space},
                                {"meaning", knob.meaning}});
  }
  return listing;
}

Listing list_metrics() {
  Listing listing{.table = {.headings = {"metric", "better", "what it is"}}};
  for (const MetricFacts& metric : known_metrics()) {
    const char* better = metric.direction == Direction::smaller_is_better  ? "smaller"
                         : metric.direction == Direction::larger_is_better ? "larger"
                                                                           : "-";
    listing.table.rows.push_back({std::string(metric.name), better, std::string(metric.meaning)});
    listing.document.push_back(
        {{"name", metric.name}, {"unit", metric.unit}, {"better", better}, {"meaning", metric.meaning}});
  }
  return listing;
}

Listing list_searchers() {
  Listing listing{.table = {.headings = {"searcher"}}};
  for (const std::string& name : searcher_names()) {
    listing.table.rows.push_back({name});
    listing.document.push_back({{"name", name}});
  }
  return listing;
}

struct RegisteredProfile {
  std::string name;  // <gpu>-x<count>/<model>/<workload>
  std::string file;
};

std::vector<RegisteredProfile> registered_profiles() {
  std::vector<RegisteredProfile> profiles;
  const std::string folder = profiles_folder();
  if (folder.empty()) return profiles;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    // Prices, the catalogue and schemas lie elsewhere.
    const fs::path inside = fs::relative(entry.path(), folder);
    if (!entry.is_regular_file() || entry.path().extension() != ".json" ||
        std::distance(inside.begin(), inside.end()) != 3)
      continue;
    profiles.push_back({(inside.parent_path() / inside.stem()).string(), entry.path().string()});
  }
  std::ranges::sort(profiles, {}, &RegisteredProfile::name);
  return profiles;
}

constexpr auto no_profile = "no profile yet: 'moetune tune --save' copies the profile of a run here";

// Its file is NAME.json in the folder of profiles; in full it stands in the document only, because paths are
// long.
Listing list_profiles() {
  Listing listing{.table = {.headings = {"profile", "measured"}}, .when_empty = no_profile};
  for (const RegisteredProfile& profile : registered_profiles()) {
    listing.table.rows.push_back({profile.name, load_launch_profile(profile.file).measured_at});
    listing.document.push_back({{"name", profile.name}, {"file", profile.file}});
  }
  return listing;
}

HardwareFingerprint this_box(const std::string& asked) {
  if (asked != "auto" && asked != "cpu" && asked != "cuda")
    throw InputError("--hardware", "'" + asked + "'", "auto, cpu, cuda");
  const DeviceChoice device = choose_device(asked, [] { return ask_for_gpu(); });
  HardwareFingerprint hardware = probe_hardware(0);
  if (device.gpu) describe_gpu(hardware, *device.gpu);
  return hardware;
}

// The nearest to this box first, with the rung that each stands on.
Listing list_profiles_for(const std::string& asked) {
  struct Match {
    RegisteredProfile profile;
    Staleness staleness;
  };
  Listing listing{.table = {.headings = {"profile", "match", "what differs"}}, .when_empty = no_profile};
  const HardwareFingerprint hardware = this_box(asked);
  std::vector<Match> matches;
  for (const RegisteredProfile& profile : registered_profiles())
    matches.push_back({profile, staleness_of(load_launch_profile(profile.file), {hardware, ""})});
  std::ranges::stable_sort(matches, {}, [](const Match& match) {
    return std::pair(match.staleness.rung, match.staleness.differences.size());
  });
  for (const Match& match : matches) {
    const std::string differs = match.staleness.differences_text();
    listing.table.rows.push_back({match.profile.name, std::string(name_of(match.staleness.rung)),
                                  differs.empty() ? "nothing" : differs});
    listing.document.push_back({{"name", match.profile.name},
                                {"file", match.profile.file},
                                {"rung", name_of(match.staleness.rung)},
                                {"differs", differs},
                                {"words", match.staleness.words()}});
  }
  if (!matches.empty())
    listing.remarks = wrapped(
        fmt::format("Nearest to this box: {}, rung '{}'. {}", matches.front().profile.name,
                    name_of(matches.front().staleness.rung), trust_text(matches.front().staleness.rung)),
        80, 0);
  return listing;
}

Listing list_hardware() {
  Listing listing{.table = {.headings = {"box", "device", "GPUs", "GB", "GB/s", "link", "USD/h", "to buy"},
                            .alignment = {Align::left, Align::left, Align::right, Align::right, Align::right,
                                          Align::right, Align::right, Align::right}},
                  .when_empty = "no catalogue comes with this build"};
  const std::string folder = profiles_folder();
  if (folder.empty() || !fs::exists(folder + "/hardware.json")) return listing;
  const auto usd = [](const std::optional<double>& value) {
    return value ? fmt::format("{:g}", *value) : std::string("-");
  };
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  for (const CatalogueBox& box : load_hardware_catalogue(folder + "/hardware.json")) {
    listing.table.rows.push_back(
        {box.name, box.device, std::to_string(box.gpu_count),
         std::to_string(box.memory_bytes / 1'000'000'000), fmt::format("{:g}", box.memory_gb_per_s),
         fmt::format("{:g}", box.link_gb_per_s), usd(box.price.usd_per_hour), usd(box.price.buy_usd)});
    listing.document.push_back({{"name", box.name},
                                {"device", box.device},
                                {"gpu_count", box.gpu_count},
                                {"memory_bytes", box.memory_bytes},
                                {"memory_gb_per_s", box.memory_gb_per_s},
                                {"link_gb_per_s", box.link_gb_per_s},
                                {"interconnect", box.interconnect},
                                {"source", box.source},
                                {"usd_per_hour", or_null(box.price.usd_per_hour)},
                                {"buy_usd", or_null(box.price.buy_usd)},
                                {"price_source", box.price.source},
                                {"price_note", box.price_note}});
  }
  listing.remarks = wrapped(
      "Peak figures of the makers, per GPU; link: host to GPU, one way. -: no dated source gives a price. "
      "Sources: --json, profiles/hardware.json.",
      80, 0);
  return listing;
}

Listing list_servers() {
  Listing listing{.table = {.headings = {"server", "name", "knobs said", "flags", "facts of version"},
                            .alignment = {Align::left, Align::left, Align::right, Align::right, Align::left}},
                  .remarks = wrapped("knobs said: those that the server has a flag, a variable or a default "
                                     "for; 'moetune export --server NAME' says which.",
                                     80, 0)};
  const std::vector<ServerTable> tables = read_server_tables(server_tables_folder());
  const KnobNames names = read_knob_names(server_tables_folder() + "/names.json");
  for (const ServerTable& table : tables) {
    const auto said = std::ranges::count_if(names.knobs, [&](const KnobName& knob) {
      const auto rules = table.settings.find(knob.setting);
      return rules != table.settings.end() &&
             std::ranges::any_of(rules->second, [](const SettingRule& rule) { return rule.none.empty(); });
    });
    listing.table.rows.push_back({table.server, table.name, std::to_string(said),
                                  std::to_string(table.flags.size()) + (table.flags_complete ? "" : "+"),
                                  table.version});
    listing.document.push_back({{"server", table.server},
                                {"name", table.name},
                                {"spellings", table.spellings},
                                {"version", table.version},
                                {"source", table.source},
                                {"not_read", table.not_read},
                                {"flags", table.flags.size()},
                                {"flags_complete", table.flags_complete},
                                {"knobs_said", said}});
  }
  return listing;
}

Listing list_claims() {
  Listing listing{.table = {.headings = {"verdict", "what is said, and what is known"}},
                  .when_empty = "no claims come with this build"};
  if (claims_file().empty()) return listing;
  for (const Claim& claim : read_claims(claims_file())) {
    listing.table.rows.push_back({claim.verdict, claim.claim + ": " + claim.fact});
    listing.document.push_back({{"id", claim.id},
                                {"flags", claim.flags},
                                {"claim", claim.claim},
                                {"verdict", claim.verdict},
                                {"fact", claim.fact},
                                {"source", claim.source}});
  }
  return listing;
}

struct Kind {
  std::string name;
  std::function<Listing()> list;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"models", list_models},       {"spaces", list_spaces},
                                        {"workloads", list_workloads}, {"profiles", list_profiles},
                                        {"knobs", list_knobs},         {"metrics", list_metrics},
                                        {"searchers", list_searchers}, {"hardware", list_hardware},
                                        {"servers", list_servers},     {"claims", list_claims}};
  return all;
}

ExitCode run_list(const std::string& what, const std::string& hardware, const Console& console) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  const std::string accepted = fmt::format("{}", fmt::join(names, ", "));
  if (what.empty()) throw InputError("list", "nothing is named", accepted);
  const auto kind = std::ranges::find(kinds(), what, &Kind::name);
  if (kind == kinds().end()) {
    const std::string closest = nearest(what, names);
    throw InputError(
        "list", "unknown kind '" + what + "'" + (closest.empty() ? "" : ", did you mean " + closest + "?"),
        accepted);
  }
  if (!hardware.empty() && what != "profiles")
    throw InputError("--hardware", "with 'list " + what + "'", "'list profiles'");
  const Listing listing = hardware.empty() ? kind->list() : list_profiles_for(hardware);
  console.result(listing.table.rows.empty() ? listing.when_empty : listing.table.text());
  if (what == "knobs") console.result("\n* in the default space");
  if (!listing.remarks.empty()) console.result("\n" + listing.remarks);
  console.document(listing.document);
  return ExitCode::done;
}

}  // namespace

Command add_list_command(CLI::App& program) {
  struct Options {
    std::string what;
    std::string hardware;
    Console console;
  };
  auto options = std::make_shared<Options>();
  CLI::App& command = add_subcommand(program, "list",
                                     "What there is: models, spaces, workloads, profiles, knobs, metrics, "
                                     "searchers, hardware, servers, claims");
  add_text_option(
      command, "what", options->what, "",
      "models | spaces | workloads | profiles | knobs | metrics | searchers | hardware | servers | claims");
  add_text_option(command, "--hardware", options->hardware, "auto|cpu|cuda",
                  "Of profiles: the nearest to this box first, and how near");
  add_output_options(command, options->console);
  return {&command, [options] { return run_list(options->what, options->hardware, options->console); }};
}

}  // namespace moetune
