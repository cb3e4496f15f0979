#include "engine/presets.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config.h"
#include "engine/config_fields.h"
#include "engine/content_hash.h"
#include "engine/data_files.h"
#include "engine/facts/error.h"
#include "engine/mapped_file.h"
#include "engine/routing_fields.h"
#include "engine/strict_json.h"
#include "kernels/generate.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kLargestPreset = 1 << 20;
constexpr auto kSuffix = ".json";

// An override and the fields of config.json it may stand for: the first that the preset has. Those without a
// field are not part of the geometry.
struct Override {
  std::string name;
  std::vector<std::string> fields;
};
const std::vector<Override>& overrides() {
  static const std::vector<Override> table{
      {"layers", {"num_hidden_layers"}},
      {"dense_layers", {"first_k_dense_replace"}},
      {"experts", {"n_routed_experts", "num_experts", "num_local_experts"}},
      {"shared", {"n_shared_experts"}},
      {"top_k", {"num_experts_per_tok"}},
      {"groups", {"n_group"}},
      {"kept_groups", {"topk_group"}},
      {"hidden", {"hidden_size"}},
      {"inner", {"moe_intermediate_size", "intermediate_size"}},
      {"dense_inner", {"intermediate_size"}},
      {"heads", {"num_attention_heads"}},
      {"kv_heads", {"num_key_value_heads"}},
      {"head_dim", {"head_dim"}},
      {"vocabulary", {"vocab_size"}},
      {"context", {"max_position_embeddings"}},
      {"fold", {}},
      {"routing", {}},
      {"seed", {}}};
  return table;
}

// The field that an override changes; empty: this model has none.
std::string field_of(const Override& change, const json& config) {
  // Where experts have a width of their own, the other width is the dense layers'.
  if (change.name == "dense_inner" && !config.contains("first_k_dense_replace")) return "";
  if (change.name == "kv_heads" && config.contains("kv_lora_rank")) return "";  // as many as heads
  for (const std::string& field : change.fields)
    if (config.contains(field)) return field;
  return "";
}

std::string accepted_overrides(const json& config) {
  std::string names;
  for (const Override& change : overrides())
    if (change.fields.empty() || !field_of(change, config).empty())
      names += (names.empty() ? "" : ", ") + change.name;
  return names;
}

std::string file_of(const std::string& name) { return presets_folder() + "/" + name + kSuffix; }
std::string name_in(const std::string& model) { return model.substr(0, model.find(':')); }

std::int64_t number_in(const std::string& where, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0)
    throw InputError(where, shown(text), "a whole number");
  return number;
}

// name=value,name=value behind the colon.
std::map<std::string, std::int64_t> read_overrides(const std::string& model, const json& config) {
  std::map<std::string, std::int64_t> values;
  const std::size_t colon = model.find(':');
  if (colon == std::string::npos) return values;
  std::string rest = model.substr(colon + 1);
  while (true) {
    const std::string one = rest.substr(0, rest.find(','));
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    const std::string where = "model " + name_in(model) + ": " + name;
    const auto known = std::ranges::find(overrides(), name, &Override::name);
    if (known == overrides().end() || (!known->fields.empty() && field_of(*known, config).empty()))
      throw InputError("model " + name_in(model), shown(name) + " cannot be overridden",
                       accepted_overrides(config));
    if (equals == std::string::npos) throw InputError(where, "its value is missing", name + "=number");
    if (values.contains(name)) throw InputError(where, "is given twice", "each override once");
    values[name] = number_in(where, one.substr(equals + 1));
    if (one.size() == rest.size()) return values;
    rest = rest.substr(one.size() + 1);
  }
}

// Writes an override into the configuration; false: it says what is there already.
bool apply(const Override& change, std::int64_t value, json& config) {
  const std::string field = field_of(change, config);
  if (config[field] == value) return false;
  // Where every head has its own keys and values, they follow the heads.
  if (change.name == "heads" && config.value("num_key_value_heads", json()) == config[field])
    config["num_key_value_heads"] = value;
  config[field] = value;
  return true;
}

NumberType type_in(const ConfigFields& types, const std::string& name) {
  const std::string text = types.text(name);
  const std::optional<NumberType> type = number_type_named(text);
  const bool ships = type == NumberType::f32 || type == NumberType::f16 || type == NumberType::bf16 ||
                     type == NumberType::fp8 || type == NumberType::mxfp4;
  if (!ships) types.refuse(name, shown(text), "f32, f16, bf16, fp8, mxfp4");
  return *type;
}

int fold_in(const std::map<std::string, std::int64_t>& values, const ModelSpec& spec,
            const std::string& model) {
  const auto found = values.find("fold");
  if (found == values.end()) return 1;
  if (found->second < 1 || found->second > spec.layers)
    throw InputError("model " + name_in(model) + ": fold", std::to_string(found->second),
                     fmt::format("1 to {}, its layers", spec.layers));
  return static_cast<int>(found->second);
}

// Is the published model's routing imitated? routing=0: the generated router decides.
bool imitates_routing(const std::map<std::string, std::int64_t>& values, const json& file,
                      const std::string& model) {
  const auto found = values.find("routing");
  if (found != values.end() && found->second > 1)
    throw InputError("model " + name_in(model) + ": routing", std::to_string(found->second),
                     "0 (the generated router decides), 1 (as published)");
  return file.contains("routing") && (found == values.end() || found->second == 1);
}

// What stands for what was published, on the way to the reader.
json geometry_of(const json& file, const std::string& where) {
  if (!file.is_object() || !file.contains("config") || !file["config"].is_object())
    throw InputError(where + ": config", "missing", "the fields of a config.json");
  json config = file["config"];
  if (file.contains("stand_in")) config.update(file["stand_in"]);
  return config;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  const std::string folder = presets_folder();
  if (folder.empty()) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == kSuffix) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

bool names_preset(const std::string& model) {
  std::error_code unreadable;  // counts as not there
  if (fs::is_directory(model, unreadable)) return false;
  const std::vector<std::string> names = preset_names();
  return std::ranges::find(names, name_in(model)) != names.end();
}

Preset open_preset(const std::string& model) {
  const std::string name = name_in(model);
  const std::string path = file_of(name);
  const json file = parse_strict_json(read_text_file(path, kLargestPreset), path);
  json config = geometry_of(file, path);
  const std::map<std::string, std::int64_t> values = read_overrides(model, config);

  std::string changes;
  for (const Override& change : overrides()) {
    const auto found = values.find(change.name);
    if (found == values.end()) continue;
    const bool is_change = change.fields.empty() ? found->second != 1 : apply(change, found->second, config);
    if (is_change) changes += fmt::format("{}{}={}", changes.empty() ? ":" : ",", change.name, found->second);
  }

  Preset preset;
  preset.spec = parse_preset_config(config, values.empty() ? path : "model " + name);
  preset.source = ConfigFields(file, path).text("source");
  if (const auto seed = values.find("seed"); seed != values.end())
    preset.seed = static_cast<std::uint64_t>(seed->second);
  ModelSpec& spec = preset.spec;
  spec.name = name + changes;
  spec.is_synthetic = true;
  spec.fold = fold_in(values, spec, model);
  if (file.contains("approximation")) spec.approximation = ConfigFields(file, path).text("approximation");
  const bool imitates = imitates_routing(values, file, model);
  if (imitates) spec.synthetic_routing = read_synthetic_routing(file["routing"], path + ": routing");
  const json type_names = file.value("number_types", json::object());
  const ConfigFields types(type_names, path + ": number_types");
  spec.checkpoint_type = type_in(types, "experts");
  spec.dense_type = type_in(types, "dense");
  spec.table_type = type_in(types, "tables");

  ContentHash hash;
  for (const std::string& text : {std::string("synthetic"), spec.name, config.dump(), types.text("experts"),
                                  types.text("dense"), types.text("tables")})
    hash.add_text(text);
  if (imitates) hash.add_text(file["routing"]["generator"].dump());
  hash.add_number(preset.seed);
  hash.add_number(kGeneratorVersion);
  spec.content_hash = hash.hex();
  return preset;
}

std::string with_fold(const std::string& model, int fold) {
  return fmt::format("{}{}fold={}", model, model.find(':') == std::string::npos ? ":" : ",", fold);
}

}  // namespace moetune
