#include "tuner/export/placeholders.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/facts/knob_text.h"

namespace moetune {
namespace {

struct Input {
  std::string_view name;
  std::string_view flag;
  std::string_view what;
};

constexpr std::array inputs_by_name{
    Input{"server_model", "--server-model",
          "the folder or hub id of the checkpoint that the server is to load"},
    Input{"gguf", "--gguf", "the GGUF file that the server is to load"},
    Input{"kt_weights", "--kt-weights", "the folder with the experts for the CPU, as kt-kernel writes it"},
    Input{"kt_method", "--kt-method", "the format of --kt-weights, such as AMXINT4, AMXINT8, FP8, LLAMAFILE"},
    Input{"served_name", "--served-name", "the name that clients ask for"},
};

const ExportModel& model_of(const PlaceholderFacts& facts) {
  if (facts.inputs.model) return *facts.inputs.model;
  throw InputError("--model", "not given, and the profile's '" + facts.profile.model + "' is no model here",
                   "the checkpoint directory or preset that was tuned: its geometry is needed");
}

double whole(double value) { return std::max(0.0, std::round(value)); }

double expert_gib_on_host(const PlaceholderFacts& facts) {
  const ExportModel& model = model_of(facts);
  const auto ranks = facts.settings.find("tensor_parallel");
  const double share =
      ranks == facts.settings.end() ? 1.0 : 1.0 / whole_setting("tensor_parallel", ranks->second);
  return (1.0 - resident_share(facts)) * model.experts * model.routing_layers *
         static_cast<double>(model.expert_bytes) * share / 1073741824.0;
}

double gpu_experts(const PlaceholderFacts& facts) {
  return whole(resident_share(facts) * model_of(facts).experts);
}

double cpu_layers(const PlaceholderFacts& facts) {
  const ExportModel& model = model_of(facts);
  return model.leading_dense_layers + whole((1.0 - resident_share(facts)) * model.routing_layers);
}

double cache_mib(const PlaceholderFacts& facts) {
  const ExportModel& model = model_of(facts);
  return std::floor(resident_share(facts) * model.experts * model.routing_layers *
                    static_cast<double>(model.expert_bytes) / 1048576.0);
}

nlohmann::json top_k_object(const PlaceholderFacts& facts) {
  const TopKKey& family = family_of(facts);
  nlohmann::json object = {{family.key, whole_setting(family.key, facts.value)}};
  if (!family.nesting.empty()) object = {{family.nesting, std::move(object)}};
  return object;
}

std::string gguf_top_k(const PlaceholderFacts& facts) {
  const TopKKey& family = family_of(facts);
  if (family.gguf.empty())
    throw InputError("export", "the name of family " + family.family + " in GGUF files is not known",
                     "a server that reads checkpoints");
  return family.gguf + ".expert_used_count=int:" + facts.value;
}

std::string cpu_threads(const PlaceholderFacts& facts) {
  const auto given = facts.settings.find("cpu_threads");
  if (given != facts.settings.end() && given->second != "auto") return given->second;
  if (facts.profile.hardware.cpu_cores > 0) return std::to_string(facts.profile.hardware.cpu_cores);
  throw InputError("export", "the profile says neither cpu_threads nor how many cores there are",
                   "a profile with hardware.cpu_cores");
}

// As many equal parts as ranks: "1,1,1,1".
std::string even_split(const PlaceholderFacts& facts) {
  const int ranks = whole_setting("tensor_parallel", facts.value);
  std::string text = "1";
  for (int i = 1; i < ranks; ++i) text += ",1";
  return text;
}

std::string context_of_all(const PlaceholderFacts& facts) {
  return std::to_string(std::int64_t{whole_setting("context", facts.value)} *
                        whole_setting("max_concurrency", facts.settings.at("max_concurrency")));
}

using Fill = std::string (*)(const PlaceholderFacts&);
constexpr std::array<std::pair<std::string_view, Fill>, 11> computed{{
    {"value", [](const PlaceholderFacts& facts) { return facts.value; }},
    {"top_k_json", [](const PlaceholderFacts& facts) { return top_k_object(facts).dump(); }},
    {"top_k_object", [](const PlaceholderFacts& facts) { return top_k_object(facts).dump(); }},
    {"gguf_top_k", gguf_top_k},
    {"offload_gib",
     [](const PlaceholderFacts& facts) { return fmt::format("{:.2f}", expert_gib_on_host(facts)); }},
    {"gpu_experts", [](const PlaceholderFacts& facts) { return fmt::format("{:.0f}", gpu_experts(facts)); }},
    {"gpu_share",
     [](const PlaceholderFacts& facts) {
       return number_text(std::round(resident_share(facts) * 1e4) / 1e4);
     }},
    {"cpu_layers", [](const PlaceholderFacts& facts) { return fmt::format("{:.0f}", cpu_layers(facts)); }},
    {"cache_mib", [](const PlaceholderFacts& facts) { return fmt::format("{:.0f}", cache_mib(facts)); }},
    {"cpu_threads", cpu_threads},
    {"even_split", even_split},
}};

}  // namespace

int whole_setting(std::string_view name, const std::string& text) {
  return parse_integer(name, text, "a whole number of 1 or more", 1, std::numeric_limits<int>::max());
}

double resident_share(const PlaceholderFacts& facts) {
  const auto found = facts.settings.find("gpu_expert_cache");
  if (found == facts.settings.end()) return 1.0;
  if (const auto bytes = parse_size(found->second)) {
    const ExportModel& model = model_of(facts);
    const double all = static_cast<double>(model.expert_bytes) * model.experts * model.routing_layers;
    return all > 0.0 ? std::min(1.0, static_cast<double>(*bytes) / all) : 1.0;
  }
  return parse_number("expert_cache", found->second, "a share, 0 < f <= 1, or a size such as 12GiB", 0.0,
                      1.0);
}

const TopKKey& family_of(const PlaceholderFacts& facts) {
  const std::string& architecture = model_of(facts).architecture;
  if (const TopKKey* const family = facts.names.family_of(architecture)) return *family;
  throw InputError("export",
                   "no table says where architecture '" + architecture + "' keeps its experts per token",
                   "a family of tuner/export/flags/names.json");
}

std::vector<std::string> placeholder_names() {
  std::vector<std::string> names{"context_of_all"};
  for (const Input& input : inputs_by_name) names.emplace_back(input.name);
  for (const auto& [name, fill] : computed) names.emplace_back(name);
  return names;
}

std::string filled(const std::string& text, const PlaceholderFacts& facts, std::set<std::string>* used) {
  if (!text.starts_with('<') || !text.ends_with('>')) return text;
  const std::string name = text.substr(1, text.size() - 2);
  if (used != nullptr) used->insert(name);
  for (const Input& input : inputs_by_name) {
    if (input.name != name) continue;
    const auto given = facts.inputs.given.find(name);
    if (given != facts.inputs.given.end() && !given->second.empty()) return given->second;
    throw InputError(std::string(input.flag), "not given, and " + facts.table.name + " needs it",
                     std::string(input.what));
  }
  if (name == "context_of_all") return context_of_all(facts);
  for (const auto& [known, fill] : computed)
    if (known == name) return fill(facts);
  throw std::logic_error("no placeholder <" + name + ">");
}

std::vector<std::string> filled(const std::vector<std::string>& texts, const PlaceholderFacts& facts,
                                std::set<std::string>* used) {
  std::vector<std::string> result;
  for (const std::string& text : texts) result.push_back(filled(text, facts, used));
  return result;
}

nlohmann::json filled(const nlohmann::json& value, const PlaceholderFacts& facts,
                      std::set<std::string>* used) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (text == "<top_k_object>") return top_k_object(facts);
    return filled(text, facts, used);
  }
  nlohmann::json result = value;
  if (value.is_structured())
    for (nlohmann::json& part : result) part = filled(std::as_const(part), facts, used);
  return result;
}

}  // namespace moetune
