#include "tuner/metric_facts.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/facts/size_text.h"
#include "tuner/accuracy_gate.h"

namespace moetune {
namespace {
using enum Direction;

constexpr auto table = std::to_array<MetricFacts>({
    {"tpot_ms", smaller_is_better, "ms per token", "time per output token while decoding", {}, true},
    {"ttft_ms",
     smaller_is_better,
     "ms to the first token",
     "time from request to first output token",
     {},
     true},
    {"tokens_per_s", larger_is_better, "tokens/s", "output tokens per second over all sequences", {}, true},
    {"arrivals_per_s",
     neither,
     "requests/s",
     "rate at which requests arrive, the same for a whole study",
     {}},
    {"goodput_per_s",
     larger_is_better,
     "requests/s",
     "requests per second that keep the service level",
     {},
     true},
    {"task_goodput_per_s",
     larger_is_better,
     "tasks/s",
     "tasks per second that keep a service level that is about tasks",
     {},
     true},
    {"queue_ms",
     smaller_is_better,
     "ms in the queue",
     "part of ttft_ms: from a request's arrival to its first step",
     {},
     true},
    {"request_tpot_ms",
     smaller_is_better,
     "ms per token",
     "a request's own mean time per token; p99 over requests",
     {},
     true},
    {"ttft_whole_ms",
     smaller_is_better,
     "ms to the first token",
     "ttft_ms of typed prompts that are only read after the last key",
     {},
     true},
    {"task_ms",
     smaller_is_better,
     "ms per task",
     "all requests of an agent's task; its tools' time is left out",
     {},
     true},
    {"task_tax_ms",
     smaller_is_better,
     "ms per task",
     "tax of an agent's task: communication, loading, synchronisation and gaps",
     {},
     true},
    {"tax_share",
     smaller_is_better,
     "share",
     "share of a token's time that is communication, loading, synchronisation and gaps",
     {},
     true},
    {"tax_token_ms",
     neither,
     "ms per token",
     "the recorded runs' own token time, to which all tax_..._ms add up; tpot_ms is of other runs",
     {},
     true},
    {"tax_communication_ms", smaller_is_better, "ms per token", "exposed communication", {}, true},
    {"tax_expert_loading_ms", smaller_is_better, "ms per token", "exposed loading of experts", {}, true},
    {"tax_synchronisation_ms", smaller_is_better, "ms per token", "waiting for the host", {}, true},
    {"tax_launch_gaps_ms", smaller_is_better, "ms per token", "nothing runs and nobody waits", {}, true},
    {"tax_router_ms", neither, "ms per token", "exposed router", {}, true},
    {"tax_compute_ms", neither, "ms per token", "exposed compute", {}, true},
    {"tax_unexplained_ms",
     neither,
     "ms per token",
     "what the recorded parts do not explain, with its sign",
     {},
     true},
    {"kl_mean", smaller_is_better, "nats", "mean KL(reference || configuration) per position",
     widest_gate_kl},
    {"kl_p99", smaller_is_better, "nats", "99th percentile of the KL over positions", {}},
    {"kl_floor",
     neither,
     "nats",
     "KL of the reference against itself, stepped alone: nothing below it can be told",
     {}},
    {"top1_agreement", larger_is_better, "share", "positions whose most likely token is the reference's",
     widest_gate_agreement},
    {"perplexity_ratio", smaller_is_better, "x", "perplexity over the reference's", {}},
    {"route_flip_rate", smaller_is_better, "share", "chosen experts that the reference did not choose", {}},
    {"router_mass",
     larger_is_better,
     "share",
     "share of the native top-k's scores that the chosen experts hold",
     {}},
    {"output_snr_db", larger_is_better, "dB", "logits against the reference's (synthetic weights)", {}},
    {"cache_hit", larger_is_better, "share", "distinct experts of a step that were resident", {}},
    {"prefetch_in_vain",
     smaller_is_better,
     "bytes",
     "per token: fetched before it was asked for, and then not asked for",
     {}},
    {"load_seconds",
     neither,
     "s",
     "weights were loaded and converted so long before anything could be timed",
     {}},
    {"device_bytes", smaller_is_better, "bytes", "peak memory of the device", {}},
    {"host_bytes", smaller_is_better, "bytes", "memory and spill files beside the device", {}},
    {"link_gb_s", neither, "GB/s", "bytes of missing experts over time", {}},
    {"joules_per_token", smaller_is_better, "J per token", "energy per output token", {}, true},
    {"usd_per_mtok",
     smaller_is_better,
     "USD per million tokens",
     "price of a million output tokens",
     {},
     true},
});

// Empty: it is no decimal number without an exponent.
std::optional<int> decimals_of(const std::string& text) {
  if (text.empty() || text.find_first_not_of("-.0123456789") != std::string::npos) return std::nullopt;
  const std::size_t point = text.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(text.size() - point - 1);
}

struct Written {
  std::string number;
  std::string unit;
};

Written written(const MetricFacts& facts, double value) {
  if (facts.unit == "share") return {fmt::format("{:.1f}", 100.0 * value), " %"};
  if (facts.unit == "bytes") {
    const std::string text = size_text(value);
    const std::size_t blank = text.find(' ');
    return {text.substr(0, blank), text.substr(blank)};
  }
  if (facts.unit == "x") return {three_digits(value), "x"};
  return {three_digits(value), " " + std::string(facts.unit)};
}
}  // namespace

std::span<const MetricFacts> known_metrics() { return table; }

const MetricFacts* find_metric(std::string_view name) {
  const auto* found =
      std::find_if(table.begin(), table.end(), [&](const MetricFacts& facts) { return facts.name == name; });
  return found == table.end() ? nullptr : found;
}

bool is_timed(std::string_view metric) {
  const MetricFacts* facts = find_metric(metric);
  return facts != nullptr && facts->is_timed;
}

std::string value_text(std::string_view metric, double value) {
  const MetricFacts* facts = find_metric(metric);
  if (facts == nullptr) return std::string(metric) + " " + three_digits(value);
  const Written text = written(*facts, value);
  return text.number + text.unit;
}

std::string number_text(std::string_view metric, double value) {
  const MetricFacts* facts = find_metric(metric);
  return facts == nullptr ? three_digits(value) : written(*facts, value).number;
}

std::string joined_ends(double low, std::string low_text, double high, std::string high_text,
                        std::string_view to) {
  const std::optional<int> of_low = decimals_of(low_text);
  const std::optional<int> of_high = decimals_of(high_text);
  if (of_low && of_high && std::abs(*of_low - *of_high) == 1 && low != 0.0 && high != 0.0) {
    if (*of_low < *of_high)
      low_text = fmt::format("{:.{}f}", low, *of_high);
    else
      high_text = fmt::format("{:.{}f}", high, *of_low);
  }
  return low_text + std::string(to) + high_text;
}

std::string interval_text(std::string_view metric, double low, double high, std::string_view to) {
  const MetricFacts* facts = find_metric(metric);
  std::string low_text = number_text(metric, low);
  std::string high_text = number_text(metric, high);
  // Shares and bytes are written in another unit than they are counted in.
  if (facts != nullptr && (facts->unit == "share" || facts->unit == "bytes"))
    return low_text + std::string(to) + high_text;
  return joined_ends(low, std::move(low_text), high, std::move(high_text), to);
}

}  // namespace moetune
