// moetune list models.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/data_files.h"
#include "engine/dense_shapes.h"
#include "engine/engine.h"
#include "engine/presets.h"
#include "engine/shard.h"
#include "tuner/commands/listing.h"
#include "tuner/commands/study.h"

namespace moetune {
namespace {

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

}  // namespace

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

}  // namespace moetune
