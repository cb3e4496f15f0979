#include "engine/config_rope.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "engine/strict_json.h"

namespace moetune {
namespace {

constexpr double kLargestTheta = 1e12;
constexpr double kLargestContext = 1e9;
constexpr double kLargestFactor = 1e6;

YarnScaling read_yarn(const ConfigFields& fields, int max_context) {
  YarnScaling yarn;
  yarn.original_context =
      fields.number_or("original_max_position_embeddings", max_context, 1.0, kLargestContext);
  // A null factor means the ratio of the two contexts, as in transformers.
  yarn.factor = fields.has("factor") ? fields.number("factor", 1.0, kLargestFactor)
                                     : max_context / yarn.original_context;
  yarn.beta_fast = fields.number_or("beta_fast", yarn.beta_fast, 1e-6, kLargestFactor);
  yarn.beta_slow = fields.number_or("beta_slow", yarn.beta_slow, 1e-6, kLargestFactor);
  if (yarn.beta_fast < yarn.beta_slow) {
    fields.refuse("beta_fast", fmt::format("{}, below beta_slow {}", yarn.beta_fast, yarn.beta_slow),
                  "beta_fast >= beta_slow");
  }
  yarn.mscale = fields.number_or("mscale", 0.0, 0.0, kLargestFactor);
  yarn.mscale_all_dim = fields.number_or("mscale_all_dim", 0.0, 0.0, kLargestFactor);
  if (fields.has("attention_factor"))
    yarn.attention_factor = fields.number("attention_factor", 0.0, kLargestFactor);
  yarn.truncate = fields.flag_or("truncate", true);
  return yarn;
}

void check_rotates_whole_head(const ConfigFields& fields) {
  if (fields.number_or("partial_rotary_factor", 1.0, 0.0, 1.0) != 1.0) {
    fields.refuse("partial_rotary_factor", shown(fields.at("partial_rotary_factor")), "1.0 or absent");
  }
}

}  // namespace

RopeSpec read_rope(const ConfigFields& config, int rotated_dim, double default_theta, int max_context) {
  check_rotates_whole_head(config);
  const std::string field = config.spelling({"rope_parameters", "rope_scaling"});
  const nlohmann::json empty = nlohmann::json::object();
  const ConfigFields scaling(config.has(field) ? config.at(field) : empty, config.where() + ": " + field);
  check_rotates_whole_head(scaling);

  RopeSpec rope;
  rope.dim = rotated_dim;
  rope.theta = scaling.has("rope_theta") ? scaling.number("rope_theta", 1.0, kLargestTheta)
                                         : config.number_or("rope_theta", default_theta, 1.0, kLargestTheta);
  const std::string type_field = scaling.spelling({"rope_type", "type"});
  const std::string type = scaling.has(type_field) ? scaling.text(type_field) : "default";
  if (type == "yarn") {
    if (rope.theta <= 1.0) scaling.refuse("rope_theta", fmt::format("{}", rope.theta), "above 1 with yarn");
    rope.yarn = read_yarn(scaling, max_context);
  } else if (type != "default") {
    scaling.refuse(type_field, shown(scaling.at(type_field)), "default, yarn");
  }
  return rope;
}

}  // namespace moetune
