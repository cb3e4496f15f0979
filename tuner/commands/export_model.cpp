#include "tuner/commands/export_model.h"

#include <optional>
#include <string>

#include "engine/data_files.h"
#include "engine/dense_shapes.h"
#include "engine/facts/error.h"
#include "engine/facts/knobs.h"
#include "engine/shard.h"
#include "tuner/commands/profile_argument.h"
#include "tuner/export/server_table.h"
#include "tuner/launch_profile.h"

namespace moetune {

ExportModel export_model(const ModelSpec& spec, const LaunchProfile& profile, const KnobNames& names) {
  EngineOptions options;
  for (const auto& [knob, value] : profile.recommended.configuration)
    if (const KnobName* const name = names.find(knob)) set_knob(options, name->knob, value);
  options.tensor_parallel = 1;
  ExportModel model{
      .architecture = spec.architecture,
      .experts = spec.experts,
      .routing_layers = spec.moe_layer_count(),
      .leading_dense_layers = 0,
      .expert_bytes = spec.moe_layer_count() > 0 ? expert_layout(spec, options, Shard{}).bytes : 0,
      .shipped = {{"router_top_k", std::to_string(spec.experts_per_token)},
                  {"expert_quantization", std::string(name_of(spec.checkpoint_type))},
                  {"dense_quantization", std::string(name_of(spec.dense_number_type()))}}};
  for (const bool routes : spec.moe_layers) {
    if (routes) break;
    ++model.leading_dense_layers;
  }
  return model;
}

namespace {

// A report is made from a run's files alone: a checkpoint that has gone since is as good as unknown.
std::optional<ModelSpec> known_model(const LaunchProfile& profile, const std::string& model) {
  try {
    return model_of_profile(profile, model);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::map<std::int64_t, std::vector<PointFlags>> flags_of_points(const LaunchProfile& profile,
                                                                const std::string& model) {
  std::map<std::int64_t, std::vector<PointFlags>> flags;
  const std::string folder = server_tables_folder();
  if (folder.empty()) return flags;
  const std::vector<ServerTable> tables = read_server_tables(folder);
  const KnobNames names = read_knob_names(folder + "/names.json");
  const std::optional<ModelSpec> spec = known_model(profile, model);
  for (const ProfilePoint& point : points_of(profile)) {
    LaunchProfile of_point = profile;
    of_point.recommended = point;
    std::optional<ExportModel> facts;
    if (spec) facts = export_model(*spec, of_point, names);
    flags[point.trial] = flags_of_point(of_point, point, tables, names, facts);
  }
  return flags;
}

}  // namespace moetune
