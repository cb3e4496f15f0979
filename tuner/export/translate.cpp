#include "tuner/export/translate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"
#include "engine/facts/knobs.h"
#include "tuner/export/command_head.h"
#include "tuner/export/given_text.h"
#include "tuner/export/placeholders.h"
#include "tuner/export/rule_choice.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

using Settings = std::map<std::string, std::string>;

// Beside weights, cache and intermediate results of this engine: a server's own buffers, graphs and
// allocator.
constexpr double memory_allowance = 1.10;
constexpr double most_memory = 0.97;
// Less is not enough for a server's context, graphs and activations, however small its model.
constexpr double least_beside_bytes = 1073741824.0;

class Translation {
 public:
  Translation(const LaunchProfile& profile, const ServerTable& table, const KnobNames& names,
              const ExportInputs& inputs)
      : profile_(profile), table_(table), names_(names), inputs_(inputs) {}

  ServerCommand run() {
    for (const auto& [name, text] : inputs_.given) check_given(name, text);
    read_settings();
    result_ = command_head(profile_, table_, names_, inputs_);
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
    say_unused();
    return std::move(result_);
  }

 private:
  // What a person gave and no line says: dropped in silence it would pass for used.
  void say_unused() {
    for (const auto& [name, text] : inputs_.given) {
      if (text.empty() || used_.contains(name) || name == "served_name") continue;  // the latter: add_model()
      std::string option = "--" + name;
      std::ranges::replace(option, '_', '-');
      result_.remarks.push_back(fmt::format("{} '{}' is not used: nothing in this command of {} takes it",
                                            option, text, table_.name));
    }
  }

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

  PlaceholderFacts facts(const std::string& value) const {
    return {profile_, names_, inputs_, table_, settings_, value};
  }

  void add_model() {
    const auto add = [&](const char* setting, const std::vector<std::string>& arguments,
                         const std::string& option) {
      ExportLine line{.knob = "",
                      .setting = setting,
                      .value = "",
                      .arguments = filled(arguments, facts(""), &used_),
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

  const SettingRule* rule_for(const std::string& setting, const std::string& value,
                              bool names_the_value) const {
    return chosen_rule(setting, names_the_value, facts(value));
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
                    .config = filled(rule.config, facts(value), &used_),
                    .evidence = evidence,
                    .note = rule.note};
    for (const auto& [variable, text] : rule.environment)
      line.environment[variable] = filled(text, facts(value), &used_);
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
    if ((memory_allowance - 1) * bytes->value < least_beside_bytes)
      return leave(fmt::format("{:.0f} % of device_bytes {:.4g} is too little for what a server keeps beside",
                               100 * (memory_allowance - 1), bytes->value));
    const double share = std::ceil(100.0 * memory_allowance * bytes->value /
                                       static_cast<double>(profile_.hardware.device_bytes) -
                                   1e-9) /
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
