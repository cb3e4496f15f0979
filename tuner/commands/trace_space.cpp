#include "tuner/commands/trace_space.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace moetune {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<MissHandling, const char*>, 3> kWays = {
    {{MissHandling::pull, "pull"}, {MissHandling::dma, "dma"}, {MissHandling::cpu, "cpu"}}};

json parameter(const char* name, const char* kind, json values) {
  return {{"name", name}, {"kind", kind}, {"values", std::move(values)}};
}

// Of one size that misses: what takes too long beside the best.
void forbid_slow_ways(const TraceReport& report, const CachePoint& point, json& constraints) {
  const auto step_ms = [&](const auto& way) { return report.predicted_step_ms(point.slots, way.first); };
  const auto& best = *std::ranges::min_element(kWays, {}, step_ms);
  for (const auto& way : kWays)
    if (step_ms(way) > most_behind * step_ms(best))
      constraints.push_back(
          {{"forbid", {{"expert_cache", {point.share}}, {"miss", {way.second}}}},
           {"reason", fmt::format("{}: a step is predicted to take {:.3g} ms, with {} {:.3g}", way.second,
                                  step_ms(way), best.second, step_ms(best))}});
}

}  // namespace

json trace_space(const TraceReport& report, const std::map<std::string, std::string>& settings) {
  json parameters = json::array();
  for (const auto& [knob, value] : settings)
    if (knob != "expert_cache" && knob != "miss")
      parameters.push_back(parameter(knob.c_str(), "categorical", {value}));
  json all = json::array();
  json that_miss = json::array();
  json constraints = json::array();
  for (const CachePoint& point : report.analysis.points) {
    all.push_back(point.share);
    if (point.slots >= all_experts(report.trace)) continue;
    that_miss.push_back(point.share);
    if (report.check->on_gpu) forbid_slow_ways(report, point, constraints);
  }
  parameters.push_back(parameter("expert_cache", "ordinal", all));
  if (report.check->on_gpu && !that_miss.empty()) {
    json miss = parameter("miss", "categorical", json::array());
    for (const auto& way : kWays) miss["values"].push_back(way.second);
    miss["active_if"] = {{"expert_cache", that_miss}};
    parameters.push_back(std::move(miss));
  }
  json space = {{"name", "traced"},
                {"description", fmt::format("{}: sizes of the expert cache, of a trace of {}.",
                                            report.trace.model, report.text)},
                {"parameters", std::move(parameters)}};
  if (!constraints.empty()) space["constraints"] = std::move(constraints);
  return space;
}

}  // namespace moetune
