// A trace's analysis as JSON. Start at to_json_value().
#include <algorithm>
#include <cmath>
#include <optional>

#include <nlohmann/json.hpp>

#include "tuner/commands/trace_report.h"

namespace moetune {
namespace {

// To a thousandth of a point: files that are compared and read.
double rounded(double share) { return std::round(share * 1e5) / 1e5; }
nlohmann::json rounded(const std::vector<double>& shares) {
  nlohmann::json list = nlohmann::json::array();
  for (const double share : shares) list.push_back(rounded(share));
  return list;
}

nlohmann::json statistics_json(const TraceReport& report) {
  const TraceStatistics& statistics = report.analysis.statistics;
  nlohmann::json distinct = nlohmann::json::object();
  for (const auto& [sequences, experts] : statistics.distinct_per_step)
    distinct[std::to_string(sequences)] = {
        {"experts", rounded(experts)}, {"by_chance", rounded(statistics.distinct_by_chance.at(sequences))}};
  return {{"same_as_last_token",
           {{"mean", rounded(statistics.mean_same_as_last_token())},
            {"per_layer", rounded(statistics.same_as_last_token)}}},
          {"by_chance", rounded(static_cast<double>(report.trace.k) / report.trace.experts)},
          {"distinct_experts_per_step", distinct},
          {"prompt_and_answer", rounded(statistics.prompt_and_answer)},
          {"router_mass_of_first", rounded(statistics.mass_of_first)},
          {"next_layer_recall",
           {{"mean", rounded(statistics.mean_next_layer_recall())},
            {"per_layer", rounded(statistics.next_layer_recall)}}}};
}

nlohmann::json curve_json(const TraceReport& report) {
  nlohmann::json lru = nlohmann::json::array();
  for (int slots = fewest_slots(report.trace); slots <= all_experts(report.trace); ++slots) {
    const bool is_exact = slots >= report.analysis.lru.exact_from;
    nlohmann::json point = {
        {"slots", slots},
        {"hit", is_exact ? nlohmann::json(rounded(report.analysis.lru.hit_rate(slots))) : nlohmann::json()}};
    if (report.check && is_exact) point["predicted_step_ms"] = rounded(report.predicted_step_ms(slots));
    lru.push_back(std::move(point));
  }
  return {{"origin", "stack distances of the trace, exact where the largest step is one wave, null below"},
          {"exact_from_slots", report.analysis.lru.exact_from},
          {"lookups", report.analysis.lru.lookups},
          {"sizes", std::move(lru)}};
}

nlohmann::json policies_json(const TraceAnalysis& analysis) {
  nlohmann::json points = nlohmann::json::array();
  for (const CachePoint& point : analysis.points)
    points.push_back({{"slots", point.slots},
                      {"share", rounded(point.share)},
                      {"lru", rounded(point.lru)},
                      {"layer_lru", rounded(point.layer_lru)},
                      {"lfu", rounded(point.lfu)},
                      {"pinned", rounded(point.pinned)},
                      {"static", rounded(point.fixed)}});
  return points;
}

nlohmann::json predictors_json(const TraceReport& report) {
  nlohmann::json scores = nlohmann::json::array();
  for (const PredictorScore& score : report.analysis.predictors)
    scores.push_back({{"predictor", score.name},
                      {"runs_in_engine", score.runs_in_engine},
                      {"cache_share", rounded(score.share)},
                      {"recall", rounded(score.recall)},
                      {"hit", rounded(score.hit_rate)},
                      {"misses", score.misses},
                      {"bytes_ahead", score.ahead * report.trace.expert_bytes},
                      {"bytes_in_vain", score.ahead_in_vain * report.trace.expert_bytes},
                      {"memory_bytes", score.memory_bytes}});
  return scores;
}

nlohmann::json grouped_json(const TraceReport& report) {
  nlohmann::json scores = nlohmann::json::array();
  for (const GroupedScore& score : report.analysis.grouped)
    scores.push_back(
        {{"group_size", score.group_size},
         {"cache_share", rounded(score.share)},
         {"hit", rounded(score.hit_rate)},
         {"layer_lru_hit", rounded(score.layer_lru_hit_rate)},
         {"bytes_per_token",
          std::llround(score.loads_per_token * static_cast<double>(report.trace.expert_bytes))},
         {"layer_lru_bytes_per_token",
          std::llround(score.layer_lru_loads_per_token * static_cast<double>(report.trace.expert_bytes))},
         {"share_in_vain", rounded(score.in_vain)}});
  return scores;
}

nlohmann::json hot_json(const TraceAnalysis& analysis) {
  nlohmann::json sets = nlohmann::json::object();
  for (std::size_t kind = 0; kind < analysis.hot.kinds.size(); ++kind)
    sets[analysis.hot.kinds[kind]] = {{"own", rounded(analysis.hot.hit[kind][kind])},
                                      {"of_other_kinds", rounded(analysis.hot.hit_by_other_kinds[kind])},
                                      {"of_all_kinds", rounded(analysis.hot.hit_of_all[kind])}};
  return {{"set_share", analysis.hot_share}, {"hit_of_sets", sets}};
}

nlohmann::json costs_json(const MissCosts::Way& way) {
  return {{"layer_us", rounded(way.layer_us)},
          {"missing_layer_us", rounded(way.missing_layer_us)},
          {"miss_us", rounded(way.miss_us)},
          {"beside_us", rounded(way.beside_us)}};
}

// null: on a CPU.
nlohmann::json on_gpu_json(const TraceReport& report) {
  if (!report.check->on_gpu) return nullptr;
  const TraceCheck::OnGpu& gpu = *report.check->on_gpu;
  const int k = report.trace.k;
  const auto from = [&](MissHandling way, MissHandling other) {
    const std::optional<int> missing = cheaper_from(gpu.costs.of(way), gpu.costs.of(other), k);
    return missing ? nlohmann::json(*missing) : nlohmann::json();
  };
  nlohmann::json steps = nlohmann::json::array();
  for (const CachePoint& point : report.analysis.points)
    steps.push_back({{"slots", point.slots},
                     {"predicted_dma", rounded(report.predicted_step_ms(point.slots, MissHandling::dma))},
                     {"predicted_pull", rounded(report.predicted_step_ms(point.slots, MissHandling::pull))}});
  return {{"measured_resident_step_ms", rounded(gpu.decode_ms)},
          {"measured_costs",
           {{"dma", costs_json(gpu.costs.dma)},
            {"pull", costs_json(gpu.costs.pull)},
            {"cpu", costs_json(gpu.costs.cpu)}}},
          {"missing_experts_of_a_layer_from_which",
           {{"dma_beats_pull", from(MissHandling::dma, MissHandling::pull)},
            {"cpu_beats_dma", from(MissHandling::cpu, MissHandling::dma)},
            {"cpu_beats_pull", from(MissHandling::cpu, MissHandling::pull)}}},
          {"step_ms", std::move(steps)}};
}

nlohmann::json check_json(const TraceReport& report) {
  if (!report.check) return {{"why_not", report.why_unchecked}};
  nlohmann::json sizes = nlohmann::json::array();
  for (const CheckedSize& size : report.check->sizes)
    sizes.push_back(
        {{"slots", size.slots},
         {"hit", {{"predicted", rounded(size.predicted_hit)}, {"measured", rounded(size.measured_hit)}}},
         {"step_ms", {{"predicted", rounded(size.predicted_ms)}, {"measured", rounded(size.measured_ms)}}}});
  return {{"policy", "lru"},
          {"measured_resident_step_ms", rounded(report.check->resident_ms)},
          {"measured_lookup_ms", rounded(report.check->costs.lookup_ms)},
          {"measured_miss_ms", rounded(report.check->costs.miss_ms)},
          {"measured_missing_layer_ms", rounded(report.check->costs.missing_layer_ms)},
          {"calibrated_at_slots", report.check->calibrated_at},
          {"sizes", sizes},
          {"on_gpu", on_gpu_json(report)},
          {"prewarming",
           {{"policy", "layer_lru"},
            {"slots", report.check->prewarmed_slots},
            {"measured_misses_cold", report.check->cold_misses},
            {"measured_misses_prewarmed", report.check->prewarmed_misses}}}};
}

}  // namespace

nlohmann::json to_json_value(const TraceReport& report) {
  const RoutingTrace& trace = report.trace;
  const std::int64_t sequences =
      trace.sequences.empty() ? 0 : std::int64_t{*std::ranges::max_element(trace.sequences)} + 1;
  return {{"model", trace.model},
          {"model_hash", trace.model_hash},
          {"text", report.text},
          {"trace",
           {{"sequences", sequences},
            {"tokens", trace.tokens()},
            {"decode_tokens", trace.decode_tokens()},
            {"layers", trace.layers},
            {"experts", trace.experts},
            {"k", trace.k},
            {"expert_bytes", trace.expert_bytes}}},
          {"statistics", statistics_json(report)},
          {"lru", curve_json(report)},
          {"replayed",
           {{"policies", policies_json(report.analysis)},
            {"prefetch", predictors_json(report)},
            {"grouped_cache", grouped_json(report)},
            {"hot_sets", hot_json(report.analysis)}}},
          {"checked", check_json(report)}};
}

}  // namespace moetune
