#include "engine/trace/trace_file.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/mapped_file.h"
#include "engine/safetensors.h"
#include "engine/strict_json.h"

namespace moetune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written and read as they lie in memory");

constexpr auto kFormat = "moetune routing trace 1";
constexpr auto kWritten = "what 'moetune trace --out' writes";
constexpr int kMostExperts = 1 << 16;

using PerToken = std::pair<const char*, std::vector<std::int32_t> RoutingTrace::*>;
constexpr std::array<PerToken, 6> kPerToken{{{"token_ids", &RoutingTrace::token_ids},
                                             {"sequences", &RoutingTrace::sequences},
                                             {"positions", &RoutingTrace::positions},
                                             {"steps", &RoutingTrace::steps},
                                             {"decodes", &RoutingTrace::decodes},
                                             {"kinds", &RoutingTrace::kinds}}};

nlohmann::json metadata_of(std::span<const std::byte> file, const std::string& where) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);  // parse_safetensors_header() has checked it
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof length;
  const nlohmann::json header = parse_strict_json({text, static_cast<std::size_t>(length)}, where);
  const auto found = header.find("__metadata__");
  if (found == header.end() || !found->is_object()) throw InputError(where, "no __metadata__", kWritten);
  return *found;
}

std::string text_in(const nlohmann::json& metadata, const char* name, const std::string& where) {
  const auto found = metadata.find(name);
  if (found == metadata.end() || !found->is_string())
    throw InputError(fmt::format("{}: __metadata__: {}", where, name), "no such text", kWritten);
  return found->get<std::string>();
}

std::int64_t number_in(const nlohmann::json& metadata, const char* name, std::int64_t most,
                       const std::string& where) {
  const std::string text = text_in(metadata, name, where);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most)
    throw InputError(fmt::format("{}: __metadata__: {}", where, name), "'" + text + "'",
                     fmt::format("1 .. {}", most));
  return number;
}

std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0;;) {
    const std::size_t comma = text.find(',', begin);
    names.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return names;
    begin = comma + 1;
  }
}

const SafetensorsEntry& entry_of(const SafetensorsHeader& header, const char* name, NumberType type,
                                 const std::string& where) {
  const auto found = header.tensors.find(name);
  if (found == header.tensors.end() || found->second.type != type)
    throw InputError(where + ": " + name, fmt::format("no such tensor of {}", name_of(type)), kWritten);
  return found->second;
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> file, const SafetensorsEntry& entry) {
  std::vector<T> values(static_cast<std::size_t>(entry.bytes) / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), file.data() + entry.begin, values.size() * sizeof(T));
  return values;
}

template <class T>
std::vector<T> values_shaped(std::span<const std::byte> file, const SafetensorsHeader& header,
                             const char* name, const std::vector<std::int64_t>& shape,
                             const std::string& where) {
  constexpr NumberType type = std::is_same_v<T, float> ? NumberType::f32 : NumberType::i32;
  const SafetensorsEntry& entry = entry_of(header, name, type, where);
  if (entry.shape != shape)
    throw InputError(where + ": " + name, fmt::format("shape ({})", fmt::join(entry.shape, ", ")),
                     fmt::format("({}), as expert_ids has it", fmt::join(shape, ", ")));
  return values_of<T>(file, entry);
}

void require_range(const std::vector<std::int32_t>& values, std::int32_t least, std::int32_t most,
                   const std::string& what) {
  for (std::size_t token = 0; token < values.size(); ++token)
    if (values[token] < least || values[token] > most)
      throw InputError(fmt::format("{}, token {}", what, token), std::to_string(values[token]),
                       fmt::format("{} .. {}", least, most));
}

// Steps ascend one by one, and all tokens of a step decode or none does.
void check_steps(const RoutingTrace& trace, const std::string& where) {
  for (std::size_t token = 0; token < trace.steps.size(); ++token) {
    const std::int32_t before = token == 0 ? -1 : trace.steps[token - 1];
    const std::int32_t step = trace.steps[token];
    const bool follows = step == before + 1 || (token > 0 && step == before);
    if (!follows)
      throw InputError(fmt::format("{}: steps, token {}", where, token), std::to_string(step),
                       token == 0 ? "0" : fmt::format("{} or {}", before, before + 1));
    if (step == before && trace.decodes[token] != trace.decodes[token - 1])
      throw InputError(fmt::format("{}: decodes, token {}", where, token),
                       std::to_string(trace.decodes[token]), "one value for all tokens of a step");
  }
}

void check_experts(const RoutingTrace& trace, const std::vector<std::int32_t>& all, const std::string& what) {
  std::vector<std::int64_t> last_seen(static_cast<std::size_t>(trace.experts),
                                      -1);  // list in which an expert was met last
  const std::int64_t lists = trace.tokens() * trace.layers;
  for (std::int64_t list = 0; list < lists; ++list)
    for (int i = 0; i < trace.k; ++i) {
      const std::int32_t id = all[static_cast<std::size_t>(list * trace.k + i)];
      const auto place = [&] {
        return fmt::format("{}, token {}, layer {}", what, list / trace.layers, list % trace.layers);
      };
      if (id < -1 || id >= trace.experts)
        throw InputError(place(), fmt::format("expert {}", id),
                         fmt::format("-1 (none) .. {}", trace.experts - 1));
      if (id >= 0 && std::exchange(last_seen[static_cast<std::size_t>(id)], list) == list)
        throw InputError(place(), fmt::format("expert {} twice", id), "different experts");
    }
}

}  // namespace

std::string trace_bytes(const RoutingTrace& trace) {
  nlohmann::json header = {{"__metadata__",
                            {{"format", kFormat},
                             {"model", trace.model},
                             {"model_hash", trace.model_hash},
                             {"experts", std::to_string(trace.experts)},
                             {"expert_bytes", std::to_string(trace.expert_bytes)},
                             {"kind_names", fmt::format("{}", fmt::join(trace.kind_names, ","))}}}};
  std::string data;
  const auto add = [&](const char* name, const char* type, const nlohmann::json& shape, const auto& values) {
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
    header[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  };
  const nlohmann::json routed = {trace.tokens(), trace.layers, trace.k};
  add("expert_ids", "I32", routed, trace.expert_ids);
  add("expert_weights", "F32", routed, trace.expert_weights);
  add("foreseen_ids", "I32", routed, trace.foreseen);
  for (const auto& [name, member] : kPerToken) add(name, "I32", {trace.tokens()}, trace.*member);
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the tensors lie at multiples of their elements
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
}

RoutingTrace read_trace(std::span<const std::byte> file, const std::string& where) {
  const SafetensorsHeader header = parse_safetensors_header(file, std::ssize(file), where);
  const nlohmann::json metadata = metadata_of(file, where);
  if (const std::string format = text_in(metadata, "format", where); format != kFormat)
    throw InputError(where + ": __metadata__: format", "'" + format + "'", kFormat);
  const SafetensorsEntry& ids = entry_of(header, "expert_ids", NumberType::i32, where);
  const auto is_list = [](std::int64_t size) { return size >= 1 && size <= kMostExperts; };
  if (ids.shape.size() != 3 || ids.shape[0] < 1 || !is_list(ids.shape[1]) || !is_list(ids.shape[2]))
    throw InputError(where + ": expert_ids", fmt::format("shape ({})", fmt::join(ids.shape, ", ")),
                     "(tokens, layers, k), each at least 1");
  RoutingTrace trace;
  trace.model = text_in(metadata, "model", where);
  trace.model_hash = text_in(metadata, "model_hash", where);
  trace.experts = static_cast<int>(number_in(metadata, "experts", kMostExperts, where));
  trace.expert_bytes = number_in(metadata, "expert_bytes", std::int64_t{1} << 40, where);
  trace.kind_names = names_in(text_in(metadata, "kind_names", where));
  trace.layers = static_cast<int>(ids.shape[1]);
  trace.k = static_cast<int>(ids.shape[2]);
  if (trace.k > trace.experts)
    throw InputError(where + ": expert_ids", fmt::format("{} places a token", trace.k),
                     fmt::format("at most {}, the experts of a layer", trace.experts));
  trace.expert_ids = values_of<std::int32_t>(file, ids);
  trace.expert_weights = values_shaped<float>(file, header, "expert_weights", ids.shape, where);
  trace.foreseen = values_shaped<std::int32_t>(file, header, "foreseen_ids", ids.shape, where);
  for (const auto& [name, member] : kPerToken)
    trace.*member = values_shaped<std::int32_t>(file, header, name, {ids.shape[0]}, where);

  constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
  for (const auto& [name, member] : kPerToken)
    require_range(trace.*member, 0,
                  member == &RoutingTrace::decodes ? 1
                  : member == &RoutingTrace::kinds ? static_cast<std::int32_t>(trace.kind_names.size()) - 1
                                                   : any,
                  where + ": " + name);
  check_steps(trace, where);
  check_experts(trace, trace.expert_ids, where + ": expert_ids");
  check_experts(trace, trace.foreseen, where + ": foreseen_ids");
  for (std::size_t i = 0; i < trace.expert_weights.size(); ++i)
    if (!std::isfinite(trace.expert_weights[i]) || trace.expert_weights[i] < 0.0F)
      throw InputError(fmt::format("{}: expert_weights, element {}", where, i),
                       fmt::format("{}", trace.expert_weights[i]), "finite, at least 0");
    else if (trace.expert_ids[i] < 0 && trace.expert_weights[i] > 0.0F)
      throw InputError(
          fmt::format("{}: expert_weights, element {}", where, i),
          fmt::format("{} of no expert (expert_ids has {})", trace.expert_weights[i], trace.expert_ids[i]),
          "0 there");
  return trace;
}

RoutingTrace read_trace_file(const std::string& path) {
  const MappedFile file(path);
  return read_trace({file.data(), static_cast<std::size_t>(file.bytes())}, path);
}

}  // namespace moetune
