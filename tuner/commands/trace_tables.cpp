// A trace's analysis as tables for a terminal. Start at tables_of().
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tuner/commands/table.h"
#include "tuner/commands/trace_report.h"
#include "tuner/counted.h"

namespace moetune {
namespace {

constexpr std::size_t kWidth = 80;  // of a terminal

std::string percent(double share) { return fmt::format("{:.1f} %", 100.0 * share); }
std::string ms(double milliseconds) { return fmt::format("{:.3f} ms", milliseconds); }

std::string statistics_text(const TraceReport& report) {
  const TraceStatistics& statistics = report.analysis.statistics;
  const double chance = static_cast<double>(report.trace.k) / report.trace.experts;
  Table table;
  table.rows.push_back(
      {"same expert at the next token",
       fmt::format("{} (by chance {})", percent(statistics.mean_same_as_last_token()), percent(chance))});
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
  table.rows.push_back(
      {"next layer foreseen by its gate one layer earlier", percent(statistics.mean_next_layer_recall())});
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
    if (report.check) table.rows.back().push_back(ms(report.predicted_step_ms(point.slots)));
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
  const StepCosts& costs = report.check->costs;
  std::string text = table.text();
  text +=
      "\n" +
      wrapped(
          fmt::format(
              "Predicted: {} (resident) + {:.1f} us (looking up) + misses x {:.1f} us + layers that miss x "
              "{:.1f} us, measured at {} and {} slots.",
              ms(report.check->resident_ms), 1e3 * costs.lookup_ms, 1e3 * costs.miss_ms,
              1e3 * costs.missing_layer_ms, fmt::join(report.check->calibrated_at, ", "),
              all_experts(report.trace)),
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

// "Cheapest for a layer by missing experts: pull up to 1, dma up to 2, cpu up to 8."
std::string cheapest_text(const MissCosts& costs, int k) {
  std::string text;
  for (int missing = 1; missing <= k; ++missing) {
    const MissHandling way = cheapest_of(costs, missing);
    if (missing < k && cheapest_of(costs, missing + 1) == way) continue;
    const char* name = way == MissHandling::pull ? "pull" : way == MissHandling::dma ? "dma" : "cpu";
    text += fmt::format("{}{} up to {}", text.empty() ? " Cheapest for a layer by missing experts: " : ", ",
                        name, missing);
  }
  return text + ".";
}

// What an lru cache's step would take where the engine decodes by itself, by way of handling a miss.
std::string on_gpu_text(const TraceReport& report) {
  const TraceCheck::OnGpu& gpu = *report.check->on_gpu;
  Table table{.headings = {"slots", "share", "dma", "pull"},
              .alignment = std::vector<Align>(4, Align::right),
              .rows = {}};
  for (const CachePoint& point : report.analysis.points)
    table.rows.push_back({std::to_string(point.slots), percent(point.share),
                          ms(report.predicted_step_ms(point.slots, MissHandling::dma)),
                          ms(report.predicted_step_ms(point.slots, MissHandling::pull))});
  std::string text = table.text() + "\n";
  const auto way = [](const char* name, const MissCosts::Way& cost) {
    return fmt::format(
        "{}: {:.1f} us a layer, {:.1f} a layer that misses, {:.1f} a miss{}. ", name, cost.layer_us,
        cost.missing_layer_us, cost.miss_us,
        cost.beside_us > 0.0
            ? fmt::format(", {:.1f} a layer that misses at least (a copy beside)", cost.beside_us)
            : std::string());
  };
  std::string costs = fmt::format("Resident {} (measured) + costs measured here. ", ms(gpu.decode_ms));
  costs += way("dma", gpu.costs.dma) + way("pull", gpu.costs.pull) + way("cpu", gpu.costs.cpu);
  const std::optional<int> from = cheaper_from(gpu.costs.dma, gpu.costs.pull, report.trace.k);
  costs += from ? fmt::format("dma costs less than pull where {} or more of {} experts are missing.", *from,
                              report.trace.k)
                : "pull never costs more than dma.";
  return text + wrapped(costs + cheapest_text(gpu.costs, report.trace.k), kWidth, 0);
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

std::string tables_of(const TraceReport& report) {
  const RoutingTrace& trace = report.trace;
  std::string text = wrapped(fmt::format("{}: {}, {} of them decoded; {}, {} of {} each", trace.model,
                                         counted(trace.tokens(), "token"), trace.decode_tokens(),
                                         counted(trace.layers, "layer that routes", "layers that route"),
                                         trace.k, counted(trace.experts, "expert")),
                             kWidth, 0);
  text += "\n" + wrapped(report.text, kWidth, 0) + "\n\n";
  text += statistics_text(report);
  text += "\n\nHit rate of decode steps, replayed. static: the best set that never changes,\nwith hindsight";
  text += report.check ? "; step: predicted:\n\n" : ":\n\n";
  text += policies_text(report);
  text += "\n\nAn lru cache, predicted from the trace and measured:\n\n" + check_text(report);
  if (report.check && report.check->on_gpu)
    text +=
        "\n\nA step of an lru cache where no experts are forced, by way of handling a miss, predicted:\n\n" +
        on_gpu_text(report);
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
