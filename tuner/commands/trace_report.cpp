#include "tuner/commands/trace_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tuner/commands/table.h"

namespace moetune {
namespace {

constexpr std::size_t kWidth = 80;  // of a terminal

double mean(const std::vector<double>& values) {
  return values.empty()
             ? 0.0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
// The first layer has no layer before it.
double mean_behind_first(const std::vector<double>& values) {
  return values.size() < 2 ? 0.0 : mean({values.begin() + 1, values.end()});
}

// To a thousandth of a point: files that are compared and read.
double rounded(double share) { return std::round(share * 1e5) / 1e5; }
nlohmann::json rounded(const std::vector<double>& shares) {
  nlohmann::json list = nlohmann::json::array();
  for (const double share : shares) list.push_back(rounded(share));
  return list;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }
std::string ms(double milliseconds) { return fmt::format("{:.3f} ms", milliseconds); }

// Predicted.
double step_ms(const TraceReport& report, int slots) {
  return report.check->step_ms(asked_of_cache(report.trace, report.analysis.lru, slots));
}

nlohmann::json statistics_json(const TraceReport& report) {
  const TraceStatistics& statistics = report.analysis.statistics;
  nlohmann::json distinct = nlohmann::json::object();
  for (const auto& [sequences, experts] : statistics.distinct_per_step)
    distinct[std::to_string(sequences)] = {
        {"experts", rounded(experts)}, {"by_chance", rounded(statistics.distinct_by_chance.at(sequences))}};
  return {{"same_as_last_token",
           {{"mean", rounded(mean(statistics.same_as_last_token))},
            {"per_layer", rounded(statistics.same_as_last_token)}}},
          {"by_chance", rounded(static_cast<double>(report.trace.k) / report.trace.experts)},
          {"distinct_experts_per_step", distinct},
          {"prompt_and_answer", rounded(statistics.prompt_and_answer)},
          {"router_mass_of_first", rounded(statistics.mass_of_first)},
          {"next_layer_recall",
           {{"mean", rounded(mean_behind_first(statistics.next_layer_recall))},
            {"per_layer", rounded(statistics.next_layer_recall)}}}};
}

nlohmann::json curve_json(const TraceReport& report) {
  nlohmann::json lru = nlohmann::json::array();
  for (int slots = fewest_slots(report.trace); slots <= all_experts(report.trace); ++slots) {
    const bool is_exact = slots >= report.analysis.lru.exact_from;
    nlohmann::json point = {
        {"slots", slots},
        {"hit", is_exact ? nlohmann::json(rounded(report.analysis.lru.hit_rate(slots))) : nlohmann::json()}};
    if (report.check && is_exact) point["predicted_step_ms"] = rounded(step_ms(report, slots));
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
          {"measured_miss_ms", rounded(report.check->miss_ms)},
          {"measured_missing_layer_ms", rounded(report.check->missing_layer_ms)},
          {"calibrated_at_slots", report.check->calibrated_at},
          {"sizes", sizes},
          {"prewarming",
           {{"policy", "layer_lru"},
            {"slots", report.check->prewarmed_slots},
            {"measured_misses_cold", report.check->cold_misses},
            {"measured_misses_prewarmed", report.check->prewarmed_misses}}}};
}

std::string statistics_text(const TraceReport& report) {
  const TraceStatistics& statistics = report.analysis.statistics;
  const double chance = static_cast<double>(report.trace.k) / report.trace.experts;
  Table table;
  table.rows.push_back(
      {"same expert at the next token",
       fmt::format("{} (by chance {})", percent(mean(statistics.same_as_last_token)), percent(chance))});
  for (const auto& [sequences, experts] : statistics.distinct_per_step)
    table.rows.push_back({fmt::format("distinct experts per layer and step, {} sequence{}", sequences,
                                      sequences == 1 ? "" : "s"),
                          fmt::format("{:.1f} of {} (by chance {:.1f})", experts, report.trace.experts,
                                      statistics.distinct_by_chance.at(sequences))});
  table.rows.push_back(
      {"experts most used in prompt and answer alike",
       fmt::format("{} (by chance {})", percent(statistics.prompt_and_answer), percent(chance))});
  std::string mass;
  for (const double share : statistics.mass_of_first)
    mass += fmt::format("{}{:.0f}", mass.empty() ? "" : " ", 100.0 * share);
  table.rows.push_back({fmt::format("router mass of the first 1 .. {}, %", report.trace.k), mass});
  table.rows.push_back({"next layer foreseen by its gate one layer earlier",
                        percent(mean_behind_first(statistics.next_layer_recall))});
  return table.text();
}

std::string policies_text(const TraceReport& report) {
  Table table{.headings = {"slots", "share", "lru", "layer_lru", "lfu", "pinned", "static"},
              .alignment = std::vector<Align>(7, Align::right),
              .rows = {}};
  if (report.check) {
    table.headings.emplace_back("lru step");
    table.alignment.push_back(Align::right);
  }
  for (const CachePoint& point : report.analysis.points) {
    table.rows.push_back({std::to_string(point.slots), percent(point.share), percent(point.lru),
                          percent(point.layer_lru), percent(point.lfu), percent(point.pinned),
                          percent(point.fixed)});
    if (report.check) table.rows.back().push_back(ms(step_ms(report, point.slots)));
  }
  return table.text();
}

std::string check_text(const TraceReport& report) {
  if (!report.check) return "Not measured: " + report.why_unchecked + ".";
  Table table{.headings = {"slots", "hit, predicted", "measured", "step, predicted", "measured", "off by"},
              .alignment = std::vector<Align>(6, Align::right),
              .rows = {}};
  for (const CheckedSize& size : report.check->sizes)
    table.rows.push_back({std::to_string(size.slots), fmt::format("{:.2f} %", 100.0 * size.predicted_hit),
                          fmt::format("{:.2f} %", 100.0 * size.measured_hit), ms(size.predicted_ms),
                          ms(size.measured_ms),
                          fmt::format("{:+.1f} %", 100.0 * (size.predicted_ms / size.measured_ms - 1.0))});
  std::string text = table.text();
  text +=
      "\n" +
      wrapped(fmt::format(
                  "Predicted: {} (resident) + misses x {:.1f} us + layers that miss x {:.1f} us, measured "
                  "at {}, {} and {} slots.",
                  ms(report.check->resident_ms), 1e3 * report.check->miss_ms,
                  1e3 * report.check->missing_layer_ms, report.check->calibrated_at.front(),
                  report.check->calibrated_at.back(), all_experts(report.trace)),
              kWidth, 0);
  if (report.check->prewarmed_slots > 0)
    text +=
        "\n" +
        wrapped(fmt::format(
                    "Prewarmed with what the other sequences choose most, the last one misses {} experts, "
                    "prompt and answer; from an empty cache {} (measured; layer_lru, {} slots).",
                    report.check->prewarmed_misses, report.check->cold_misses, report.check->prewarmed_slots),
                kWidth, 0);
  return text;
}

std::string mebibytes(double bytes) { return fmt::format("{:.2f} MiB", bytes / (1 << 20)); }

std::string predictors_text(const TraceReport& report) {
  Table table{.headings = {"prefetch", "cache", "recall", "hit", "ahead/token", "in vain", "memory"},
              .alignment = {Align::left},
              .rows = {}};
  table.alignment.resize(7, Align::right);
  const auto tokens = static_cast<double>(std::max<std::int64_t>(
      1, report.trace.part([](std::int32_t sequence) { return sequence % 2 == 1; }).decode_tokens()));
  for (const PredictorScore& score : report.analysis.predictors)
    table.rows.push_back(
        {score.name + (score.runs_in_engine ? "" : " *"), percent(score.share), percent(score.recall),
         percent(score.hit_rate),
         mebibytes(static_cast<double>(score.ahead * report.trace.expert_bytes) / tokens),
         mebibytes(static_cast<double>(score.ahead_in_vain * report.trace.expert_bytes) / tokens),
         mebibytes(static_cast<double>(score.memory_bytes))});
  return table.text();
}

std::string grouped_text(const TraceReport& report) {
  Table table{
      .headings = {"cache", "hit, groups", "layer_lru", "loaded/token, groups", "layer_lru", "in vain"},
      .alignment = std::vector<Align>(6, Align::right),
      .rows = {}};
  for (const GroupedScore& score : report.analysis.grouped)
    table.rows.push_back(
        {percent(score.share), percent(score.hit_rate), percent(score.layer_lru_hit_rate),
         mebibytes(score.loads_per_token * static_cast<double>(report.trace.expert_bytes)),
         mebibytes(score.layer_lru_loads_per_token * static_cast<double>(report.trace.expert_bytes)),
         percent(score.in_vain)});
  return table.text();
}

std::string hot_text(const TraceAnalysis& analysis) {
  Table table{.headings = {"text", "its own set", "the set of all", "sets of others"},
              .alignment = {Align::left, Align::right, Align::right, Align::right},
              .rows = {}};
  for (std::size_t kind = 0; kind < analysis.hot.kinds.size(); ++kind)
    table.rows.push_back({analysis.hot.kinds[kind], percent(analysis.hot.hit[kind][kind]),
                          percent(analysis.hot.hit_of_all[kind]),
                          percent(analysis.hot.hit_by_other_kinds[kind])});
  return table.text();
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

std::string tables_of(const TraceReport& report) {
  const RoutingTrace& trace = report.trace;
  std::string text = wrapped(
      fmt::format("{}: {} tokens, {} of them decoded; {} layers that route, {} of {} experts each",
                  trace.model, trace.tokens(), trace.decode_tokens(), trace.layers, trace.k, trace.experts),
      kWidth, 0);
  text += "\n" + wrapped(report.text, kWidth, 0) + "\n\n";
  text += statistics_text(report);
  text += "\n\nHit rate of decode steps, replayed. static: the best set that never changes,\nwith hindsight";
  text += report.check ? "; step: predicted:\n\n" : ":\n\n";
  text += policies_text(report);
  text += "\n\nAn lru cache, predicted from the trace and measured:\n\n" + check_text(report);
  if (!report.analysis.predictors.empty()) {
    text +=
        "\n\nPrefetch beside layer_lru, replayed on every other sequence. *: learned from the\nothers, not "
        "in the engine:\n\n" +
        predictors_text(report);
    text +=
        fmt::format(
            "\n\nA cache of groups of {} experts that are chosen together, replayed, not in the\nengine:\n\n",
            report.analysis.grouped.front().group_size) +
        grouped_text(report);
    text += fmt::format(
                "\n\nHot sets of {:.0f} % of all experts: share of a text's choices that they "
                "hold,\nreplayed:\n\n",
                100.0 * report.analysis.hot_share) +
            hot_text(report.analysis);
  }
  return text;
}

}  // namespace moetune
