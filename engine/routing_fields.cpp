#include "engine/routing_fields.h"

#include "engine/config_fields.h"

namespace moetune {
namespace {

constexpr double kLargestWeight = 4.0;  // more would pass what a sum of draws holds
constexpr int kLongestHold = 1 << 16;

std::optional<PublishedShare> share_in(const ConfigFields& published, const std::string& name) {
  if (!published.has(name)) return std::nullopt;
  const nlohmann::json& range = published.at(name);
  if (!range.is_array() || range.size() != 2 || !range[0].is_number() || !range[1].is_number())
    published.refuse(name, range.dump(), "[lowest, highest]");
  const PublishedShare share{range[0].get<double>(), range[1].get<double>()};
  if (!(share.low >= 0.0 && share.low <= share.high && share.high <= 1.0))
    published.refuse(name, range.dump(), "shares from 0 to 1, the lower first");
  return share;
}

const nlohmann::json& object_in(const ConfigFields& fields, const std::string& name) {
  if (!fields.has(name)) fields.refuse(name, "missing", "an object");
  return fields.at(name);
}

}  // namespace

SyntheticRouting read_synthetic_routing(const nlohmann::json& object, const std::string& where) {
  const ConfigFields fields(object, where);
  SyntheticRouting routing;
  routing.source = fields.text("source");
  const ConfigFields published(object_in(fields, "published"), where + ": published");
  routing.same_expert = share_in(published, "same_expert");
  routing.first_choice = share_in(published, "first_choice");
  routing.within_8 = share_in(published, "within_8_tokens");
  routing.top_share = share_in(published, "top_40_percent");
  routing.lru_hit = share_in(published, "lru_hit_at_40_percent");
  routing.next_layer = share_in(published, "next_layer");
  const ConfigFields generator(object_in(fields, "generator"), where + ": generator");
  routing.popularity = generator.number("popularity", 0.0, 2.0);
  routing.held = generator.number("held", 0.0, kLargestWeight);
  routing.hold_tokens = generator.integer("hold_tokens", 1, kLongestHold);
  routing.surprise = generator.number("surprise", 0.0, kLargestWeight);
  return routing;
}

}  // namespace moetune
