#include "tuner/commands/routing_file.h"

#include <bit>
#include <cassert>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "engine/mapped_file.h"
#include "engine/safetensors.h"

namespace moetune {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are written and read as they lie in memory");

constexpr auto ids_name = "expert_ids";
constexpr auto weights_name = "expert_weights";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ", "));
}

void check_ids(const RoutingTable& table, const ModelSpec& spec, const std::string& where) {
  for (std::int64_t token = 0; token < table.tokens(); ++token)
    for (int layer = 0; layer < spec.layers; ++layer) {
      if (!spec.moe_layers[static_cast<std::size_t>(layer)]) continue;
      const std::span<const std::int32_t> ids = table.ids(token, layer);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto place = [&] { return fmt::format("{}, token {}, layer {}", where, token, layer); };
        if (ids[i] < -1 || ids[i] >= spec.experts)
          throw InputError(place(), fmt::format("expert {}", ids[i]),
                           fmt::format("0 to {}, -1 for none", spec.experts - 1));
        for (std::size_t before = 0; before < i; ++before)
          if (ids[i] >= 0 && ids[before] == ids[i])
            throw InputError(place(), fmt::format("expert {} twice", ids[i]), "different experts");
      }
    }
}

}  // namespace

RoutingTable::RoutingTable(const ModelSpec& spec, std::int64_t tokens, int k) : tokens_(tokens), k_(k) {
  for (const bool routes : spec.moe_layers) row_of_layer_.push_back(routes ? moe_layers_++ : -1);
  const auto entries = static_cast<std::size_t>(tokens * moe_layers_ * k);
  ids_.assign(entries, -1);
  weights_.assign(entries, 0.0F);
}

std::size_t RoutingTable::first(std::int64_t token, int layer) const {
  const int row = row_of_layer_[static_cast<std::size_t>(layer)];
  assert(row >= 0 && token >= 0 && token < tokens_);
  return static_cast<std::size_t>((token * moe_layers_ + row) * k_);
}

void write_routing(PartialFile& file, const RoutingTable& table) {
  const std::size_t id_bytes = table.all_ids().size() * sizeof(std::int32_t);
  const std::size_t weight_bytes = table.all_weights().size() * sizeof(float);
  const nlohmann::json shape = {table.tokens(), table.moe_layers(), table.k()};
  const nlohmann::json header = {
      {ids_name, {{"dtype", "I32"}, {"shape", shape}, {"data_offsets", {0, id_bytes}}}},
      {weights_name,
       {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {id_bytes, id_bytes + weight_bytes}}}}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the tensors lie at multiples of their elements
  const std::uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  file.write(table.all_ids().data(), id_bytes);
  file.write(table.all_weights().data(), weight_bytes);
}

RoutingTable read_routing(const std::string& path, const ModelSpec& spec, std::int64_t tokens, int k) {
  const MappedFile file(path);
  const SafetensorsHeader header = parse_safetensors_header(
      std::span(file.data(), static_cast<std::size_t>(file.bytes())), file.bytes(), path);
  const auto found = header.tensors.find(ids_name);
  const std::string where = fmt::format("{}: {}", path, ids_name);
  if (found == header.tensors.end() || found->second.type != NumberType::i32)
    throw InputError(where, "no such tensor of int32", "what 'moetune logits --routing-out' writes");
  RoutingTable table(spec, tokens, k);
  const std::vector<std::int64_t> wanted = {tokens, table.moe_layers(), k};
  if (found->second.shape != wanted)
    throw InputError(where, "shape " + shape_text(found->second.shape),
                     shape_text(wanted) + ": tokens, MoE layers, top_k of this run");
  file.read(found->second.begin, std::as_writable_bytes(std::span(table.all_ids())));
  check_ids(table, spec, where);
  return table;
}

}  // namespace moetune
