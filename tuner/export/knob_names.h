// One table maps our knobs to what servers call them: tuner/export/flags/names.json. A knob has two
// spellings, ours (top_k) and the one of the server tables (router_top_k); both are accepted. It also holds
// which key of config.json each model family keeps its number of experts per token under. Start at
// read_knob_names().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct KnobName {
  std::string knob;     // "top_k"
  std::string setting;  // "router_top_k": as the server tables have it
  std::vector<std::string>
      unchanged;  // values that ask no server for anything, unless its table says otherwise
  std::string unchanged_note;
  bool decides_memory = false;  // where it is lost, bytes measured here say nothing about the server
  // Matters only while this setting is not one of its own unchanged values: a policy without a cache.
  std::string matters_with;
  // For servers whose tables do not name the setting.
  std::string none;
  std::string nearest;
  std::string cost;
};

// How a model family keeps its number of experts per token.
struct TopKKey {
  std::string family;                // "Qwen3-MoE"
  std::vector<std::string> classes;  // architectures in config.json
  std::string key;                   // "num_experts_per_tok"
  std::string nesting;               // "text_config"; empty: at the top
  std::string gguf;                  // "qwen3moe": general.architecture; empty: not known
  std::string note;                  // limits of k in this family
};

struct KnobNames {
  std::string source;
  std::vector<KnobName> knobs;
  std::vector<TopKKey> families;

  const KnobName* find(std::string_view either_spelling) const;  // nullptr: not known
  const KnobName* of_setting(std::string_view setting) const;
  const TopKKey* family_of(std::string_view architecture) const;  // nullptr: not known
};

// Throws InputError naming file and field.
KnobNames read_knob_names(const std::string& file);

}  // namespace moetune
