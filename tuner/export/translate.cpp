#include "tuner/export/translate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"
#include "engine/facts/knobs.h"
#include "tuner/export/placeholders.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

using Settings = std::map<std::string, std::string>;

// Beside weights, cache and intermediate results of this engine: a server's own buffers, graphs and
// allocator.
constexpr double memory_allowance = 1.10;
constexpr double most_memory = 0.97;

// Text that can be an argument of a program and stand in JSON and YAML.
void check_text(const std::string& where, const std::string& text) {
  if (text.find('\0') != std::string::npos)
    throw InputError(where, "a NUL character", "a text that can be an argument of a program");
  try {
    (void)nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw InputError(where, "'" + printable(text) + "' is not UTF-8", "UTF-8");
  }
}

class Translation {
 public:
  Translation(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
              const ExportInputs& inputs)
      : profile_(profile), table_(table), names_(names), inputs_(inputs) {}

  ServerCommand run() {
    for (const auto& [name, text] : inputs_.given) check_text("--" + name, text);
    read_settings();
    say_what_it_is();
    add_model();
    for (const KnobName& name : names_.knobs) add_knob(name);
    for (const auto& [knob, value] : unknown_)
      result_.no_equivalent.push_back({.knob = knob,
                                       .setting = "",
                                       .value = value,
                                       .why = "a knob that this build has no translation for",
                                       .nearest = "",
                                       .nearest_arguments = {},
                                       .cost = ""});
    add_derived("max_model_len", std::to_string(profile_.workload.context_tokens()),
                fmt::format("workload {}: its longest context in tokens", profile_.workload.name));
    add_memory();
    return std::move(result_);
  }

 private:
  void read_settings() {
    for (const auto& [knob, value] : profile_.recommended.configuration) {
      check_text("configuration." + knob, value);
      const KnobName* const name = names_.find(knob);
      if (name == nullptr) {
        unknown_.emplace(knob, value);
        continue;
      }
      EngineOptions ignored;
      set_knob(ignored, name->knob, value);  // a value that this engine takes, or InputError
      settings_[name->setting] = value;
    }
    const auto sequences = settings_.find("max_concurrency");
    concurrency_from_workload_ = sequences == settings_.end() || sequences->second == "auto";
    concurrency_named_ = sequences != settings_.end();
    if (concurrency_from_workload_)
      settings_["max_concurrency"] = std::to_string(profile_.workload.sequences);
  }

  void say_what_it_is() {
    const bool folded = profile_.model.find("fold=") != std::string::npos;
    if (profile_.synthetic_weights)
      result_.caution =
          "SYNTHETIC WEIGHTS: generated, so that accuracy is unknown and only speed was measured";
    if (folded)
      result_.caution += std::string(result_.caution.empty() ? "" : "; ") +
                         "FOLDED: several layers shared one set of weights";
    if (!result_.caution.empty()) result_.caution += " (" + profile_.model + ")";
    result_.title =
        fmt::format("{}, workload {}, for {}", profile_.model, profile_.workload.name, table_.name);
    result_.command = table_.command;
    result_.config_flag = table_.config_flag;
    result_.remarks.push_back(
        fmt::format("Flags as of {}, version {}; source: {}", table_.name, table_.version, table_.source));
    if (!inputs_.server_version.empty())
      result_.remarks.push_back(
          fmt::format("Version {} was asked for: what is known to differ there is left out, nothing else was "
                      "checked for it; --check asks the server itself",
                      inputs_.server_version));
    const bool on_gpu = profile_.hardware.device != "cpu";
    result_.remarks.push_back(
        fmt::format("Measured by moetune's own engine on {}; what {} makes of it is a hypothesis until "
                    "'moetune confirm' has measured that",
                    on_gpu ? profile_.hardware.device : "a CPU, " + profile_.hardware.cpu_name, table_.name));
    if (!on_gpu && table_.device == "gpu")
      result_.remarks.push_back(
          table_.name +
          " runs on GPUs, this profile was measured on a CPU: its times say nothing about them");
    if (inputs_.model)
      if (const TopKKey* const family = names_.family_of(inputs_.model->architecture);
          family != nullptr && !family->note.empty())
        result_.remarks.push_back(family->family + ": " + family->note);
  }

  PlaceholderFacts facts(const std::string& value) const {
    return {profile_, names_, inputs_, table_, settings_, value};
  }

  void add_model() {
    const auto add = [&](const char* setting, const std::vector<std::string>& arguments,
                         const std::string& option) {
      ExportLine line{.knob = "",
                      .setting = setting,
                      .value = "",
                      .arguments = filled(arguments, facts("")),
                      .environment = {},
                      .evidence = option,
                      .note = ""};
      if (!line.arguments.empty()) result_.lines.push_back(std::move(line));
    };
    const bool is_gguf = std::ranges::find(table_.model, "<gguf>") != table_.model.end();
    add("model", table_.model, is_gguf ? "given: --gguf" : "given: --server-model");
    const auto name = inputs_.given.find("served_name");
    if (name == inputs_.given.end() || name->second.empty()) return;
    if (table_.served_name.empty())
      result_.no_equivalent.push_back({.knob = "",
                                       .setting = "served_name",
                                       .value = name->second,
                                       .why = table_.name + " has no flag for it in what was read",
                                       .nearest = "the name the server gives the model itself",
                                       .nearest_arguments = {},
                                       .cost = "clients ask for that one"});
    else
      add("served_name", table_.served_name, "given: --served-name");
  }

  std::string measured() const {
    const std::string metric = profile_.objectives.empty() ? "tpot_ms" : profile_.objectives.front();
    const auto& evidence = profile_.recommended.evidence;
    const auto found = std::ranges::find(evidence, metric, &Evidence::metric);
    if (found == evidence.end()) return fmt::format("trial {} on this engine", profile_.recommended.trial);
    std::string text = fmt::format("{} on this engine, trial {}: {} {:.4g}", found->origin,
                                   profile_.recommended.trial, metric, found->value);
    if (found->low && found->high) text += fmt::format(" ({:.4g}-{:.4g})", *found->low, *found->high);
    return text;
  }

  bool is_unchanged(const KnobName& name, const std::string& value) const {
    return std::ranges::find(name.unchanged, value) != name.unchanged.end();
  }

  bool holds(const SettingRule& rule, const std::string& value) const {
    const auto other = [&](const std::string& setting) {
      const auto found = settings_.find(setting);
      return found == settings_.end() ? 1L : std::stol(found->second);
    };
    if (!rule.when.empty() && std::ranges::find(rule.when, value) == rule.when.end()) return false;
    if (!rule.equals.empty() && other(rule.equals) != std::stol(value)) return false;
    if (!rule.divides.empty() && other(rule.divides) % std::stol(value) != 0) return false;
    if (!rule.not_below.empty() && std::stol(value) < other(rule.not_below)) return false;
    if (rule.nesting && *rule.nesting == family_of(facts(value)).nesting.empty()) return false;
    if (!rule.device.empty() && (rule.device == "cpu") != (profile_.hardware.device == "cpu")) return false;
    if (!rule.since.empty() && !inputs_.server_version.empty() &&
        is_older(inputs_.server_version, rule.since))
      return false;
    if (!rule.methods.empty()) {
      const auto method = inputs_.given.find("kt_method");
      if (method == inputs_.given.end() ||
          std::ranges::find(rule.methods, method->second) == rule.methods.end())
        return false;
    }
    return true;
  }

  const SettingRule* rule_for(const std::string& setting, const std::string& value,
                              bool names_the_value) const {
    const auto rules = table_.settings.find(setting);
    if (rules == table_.settings.end()) return nullptr;
    for (const SettingRule& rule : rules->second)
      if (rule.when.empty() != names_the_value && holds(rule, value)) return &rule;
    return nullptr;
  }

  void add_knob(const KnobName& name) {
    if (name.setting == "max_concurrency") return add_concurrency(name);
    const auto setting = settings_.find(name.setting);
    if (setting == settings_.end()) return;
    const std::string& value = setting->second;
    const auto leave = [&](const std::string& why) {
      result_.unsaid.push_back({name.knob, name.setting, value, why});
    };
    if (!name.matters_with.empty()) {
      const auto other = settings_.find(name.matters_with);
      if (other == settings_.end() || is_unchanged(*names_.of_setting(name.matters_with), other->second))
        return leave("nothing is ever missing: every expert is resident");
    }
    if (used_.contains(name.setting)) return leave("said together with another flag");
    if (inputs_.model) {
      const auto shipped = inputs_.model->shipped.find(name.setting);
      if (shipped != inputs_.model->shipped.end() && shipped->second == value)
        return leave("the model's own");
    }
    if (const SettingRule* const rule = rule_for(name.setting, value, true))
      return add(name, value, *rule, measured());
    if (is_unchanged(name, value)) return leave(name.unchanged_note);
    if (const SettingRule* const rule = rule_for(name.setting, value, false))
      return add(name, value, *rule, measured());
    lose(name,
         {.knob = name.knob,
          .setting = name.setting,
          .value = value,
          .why = name.none.empty() ? "nothing of this kind in what was read of " + table_.name : name.none,
          .nearest = name.nearest,
          .nearest_arguments = {},
          .cost = name.cost});
  }

  void add_concurrency(const KnobName& name) {
    const std::string& value = settings_.at(name.setting);
    const SettingRule* const rule = rule_for(name.setting, value, false);
    const std::string evidence =
        concurrency_from_workload_
            ? fmt::format("workload {}: sequences side by side", profile_.workload.name)
            : measured();
    KnobName shown = name;
    if (!concurrency_named_) shown.knob = "";
    if (rule != nullptr) return add(shown, value, *rule, evidence);
    lose(shown, {.knob = shown.knob,
                 .setting = name.setting,
                 .value = value,
                 .why = "nothing of this kind in what was read of " + table_.name,
                 .nearest = "",
                 .nearest_arguments = {},
                 .cost = ""});
  }

  void lose(const KnobName& name, NoEquivalent lost) {
    if (name.decides_memory) memory_unknown_ = name.knob;
    lost.nearest_arguments = filled(lost.nearest_arguments, facts(lost.value));
    if (inputs_.take_nearest && !lost.nearest_arguments.empty()) {
      lost.taken = true;
      result_.lines.push_back({.knob = "",
                               .setting = name.setting,
                               .value = lost.value,
                               .arguments = lost.nearest_arguments,
                               .environment = {},
                               .evidence = "nearest choice, not what was measured",
                               .note = lost.cost});
    }
    result_.no_equivalent.push_back(std::move(lost));
  }

  void add(const KnobName& name, const std::string& value, const SettingRule& rule,
           const std::string& evidence) {
    if (!rule.none.empty())
      return lose(name, {.knob = name.knob,
                         .setting = name.setting,
                         .value = value,
                         .why = rule.none,
                         .nearest = rule.nearest,
                         .nearest_arguments = rule.nearest_arguments,
                         .cost = rule.cost});
    ExportLine line{.knob = name.knob,
                    .setting = name.setting,
                    .value = value,
                    .arguments = filled(rule.arguments, facts(value), &used_),
                    .environment = {},
                    .config = filled(rule.config, facts(value)),
                    .evidence = evidence,
                    .note = rule.note};
    for (const auto& [variable, text] : rule.environment)
      line.environment[variable] = filled(text, facts(value));
    if (line.arguments.empty() && line.environment.empty() && line.config.is_null())
      result_.unsaid.push_back({name.knob, name.setting, value, rule.note});
    else
      result_.lines.push_back(std::move(line));
  }

  // A setting that is no knob.
  void add_derived(const std::string& setting, const std::string& value, const std::string& evidence) {
    const KnobName name{.knob = "",
                        .setting = setting,
                        .unchanged = {},
                        .unchanged_note = "",
                        .matters_with = "",
                        .none = "",
                        .nearest = "",
                        .cost = ""};
    if (const SettingRule* const rule = rule_for(setting, value, false)) add(name, value, *rule, evidence);
  }

  // The share of the GPU that the workload needs, from the bytes that were measured with it.
  void add_memory() {
    const std::string setting = "gpu_memory_fraction";
    const auto leave = [&](const std::string& why) {
      result_.unsaid.push_back({"", setting, "", why + ": the server's default stays"});
    };
    if (profile_.hardware.device == "cpu") return leave("the profile was measured on a CPU");
    if (!memory_unknown_.empty())
      return leave(memory_unknown_ + " has no equivalent, so the bytes measured here are not the server's");
    const auto bytes = std::ranges::find(profile_.recommended.evidence, "device_bytes", &Evidence::metric);
    if (bytes == profile_.recommended.evidence.end() || profile_.hardware.device_bytes <= 0)
      return leave("the profile does not know device_bytes");
    const double share = std::ceil(100.0 * memory_allowance * bytes->value /
                                   static_cast<double>(profile_.hardware.device_bytes)) /
                         100.0;
    if (share <= 0.0 || share > most_memory)
      return leave(fmt::format("device_bytes with {:.0f} % more is {:.0f} % of the GPU",
                               100 * (memory_allowance - 1), 100 * share));
    add_derived(
        setting, fmt::format("{:.2f}", share),
        fmt::format(
            "workload {}: {} device_bytes {:.4g} of {:.4g}, and {:.0f} % more for what a server keeps beside",
            profile_.workload.name, bytes->origin, bytes->value,
            static_cast<double>(profile_.hardware.device_bytes), 100 * (memory_allowance - 1)));
  }

  const LaunchProfile& profile_;
  const ServerTable& table_;
  const KnobNames& names_;
  const ExportInputs& inputs_;
  ServerCommand result_;
  Settings settings_;
  Settings unknown_;            // knobs of another build
  std::set<std::string> used_;  // placeholders of lines so far
  std::string memory_unknown_;  // the knob that was lost and decides it
  bool concurrency_from_workload_ = false;
  bool concurrency_named_ = false;
};

}  // namespace

std::vector<std::string> ServerCommand::arguments() const {
  std::vector<std::string> all;
  for (const ExportLine& line : lines) all.insert(all.end(), line.arguments.begin(), line.arguments.end());
  return all;
}

std::map<std::string, std::string> ServerCommand::environment() const {
  std::map<std::string, std::string> all;
  for (const ExportLine& line : lines) all.insert(line.environment.begin(), line.environment.end());
  return all;
}

nlohmann::json ServerCommand::config() const {
  nlohmann::json all = nullptr;
  for (const ExportLine& line : lines)
    if (!line.config.is_null()) {
      // Not merge_patch: there null deletes a key, here it is a value.
      if (all.is_null()) all = nlohmann::json::object();
      all.update(line.config, true);
    }
  return all;
}

ServerCommand translate(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
                        const ExportInputs& inputs) {
  check_text("model.name", profile.model);
  return Translation(profile, table, names, inputs).run();
}

}  // namespace moetune
