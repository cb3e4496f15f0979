#include "tuner/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/accuracy_gate.h"
#include "tuner/contender.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

// Of the memory that a GPU is sold with, what drivers and error correction leave at least.
constexpr double least_share_of_a_gpu = 0.9;

using Field = std::pair<const char*, std::function<std::string(const LaunchProfile&)>>;

// What has to be the same. Seed and name of the workload are no part of the work.
const std::vector<Field>& compared_fields() {
  using Profile = const LaunchProfile&;
  const auto yes_no = [](bool value) { return std::string(value ? "yes" : "no"); };
  static const std::vector<Field> fields = {
      {"gate", [](Profile p) { return p.gate; }},
      {"workload.prompt_tokens", [](Profile p) { return std::to_string(p.workload.prompt_tokens); }},
      {"workload.output_tokens", [](Profile p) { return std::to_string(p.workload.output_tokens); }},
      {"workload.sequences", [](Profile p) { return std::to_string(p.workload.sequences); }},
      {"workload.rounds", [](Profile p) { return std::to_string(p.workload.rounds); }},
      {"workload.round_prompt_tokens",
       [](Profile p) { return std::to_string(p.workload.round_prompt_tokens); }},
      {"workload.tool_gap_seconds",
       [](Profile p) { return fmt::format("{:g}", p.workload.tool_gap_seconds); }},
      {"workload.typed_pieces", [](Profile p) { return std::to_string(p.workload.typed_pieces); }},
      {"workload.piece_gap_seconds",
       [](Profile p) { return fmt::format("{:g}", p.workload.piece_gap_seconds); }},
      {"workload.prewarmed", [=](Profile p) { return yes_no(p.workload.prewarmed); }},
      {"workload.poisson_arrivals", [=](Profile p) { return yes_no(p.workload.poisson_arrivals); }},
      {"slo.metric",
       [](Profile p) { return p.workload.slo.metric.empty() ? std::string("none") : p.workload.slo.metric; }},
      {"slo.limit_ms", [](Profile p) { return fmt::format("{:g}", p.workload.slo.limit_ms); }}};
  return fields;
}

const Measurement* find(const Metrics& metrics, const char* name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? nullptr : &found->second;
}

// Tokens per hour turn an interval around: the most tokens are the cheapest.
std::optional<Measurement> price_of_tokens(const Metrics& metrics,
                                           const std::optional<double>& usd_per_hour) {
  const Measurement* rate = find(metrics, "tokens_per_s");
  if (rate == nullptr || !usd_per_hour || rate->value <= 0.0) return std::nullopt;
  Measurement price = *rate;
  price.value = usd_per_mtok(*usd_per_hour, rate->value);
  price.p99.reset();
  price.low.reset();
  price.high.reset();
  if (rate->low && rate->high && *rate->low > 0.0) {
    price.low = usd_per_mtok(*usd_per_hour, *rate->high);
    price.high = usd_per_mtok(*usd_per_hour, *rate->low);
  }
  return price;
}

ComparedPoint point_of(const ProfilePoint& point, const Slo& slo) {
  ComparedPoint made{.configuration = {point.configuration},
                     .metrics = metrics_of(point),
                     .keeps_slo = {},
                     .usd_per_mtok = {}};
  if (!slo.metric.empty()) made.keeps_slo = keeps(slo, made.metrics);
  return made;
}

// A run that was told a price has it in its numbers: exactly where price and rate come from one measurement,
// as on the front; medians of a final round are medians of each by itself.
void price_from_run(ComparedBox& box, const LaunchProfile& profile) {
  if (box.price.usd_per_hour) return;
  std::vector<Metrics> candidates;
  for (const ProfilePoint& point : profile.front) candidates.push_back(metrics_of(point));
  candidates.push_back(box.recommended.metrics);
  for (const Metrics& metrics : candidates) {
    const Measurement* price = find(metrics, "usd_per_mtok");
    const Measurement* rate = find(metrics, "tokens_per_s");
    if (price == nullptr || rate == nullptr) continue;
    box.price.usd_per_hour = price->value * rate->value * 3600.0 / 1e6;
    box.price.source += (box.price.source.empty() ? "" : "; ") + std::string("rent as its run was told");
    return;
  }
}

void check(const ComparedBox& box, const char* what, double value) {
  if (!std::isfinite(value))
    throw InputError(box.from, fmt::format("{} of {} comes to no number", what, box.box),
                     "figures and prices that can be of a box");
}

void check(const ComparedBox& box, const char* what, const Measurement& measurement) {
  check(box, what, measurement.value);
  check(box, what, measurement.low.value_or(0.0));
  check(box, what, measurement.high.value_or(0.0));
}

void check(const ComparedBox& box, const ComparedPoint& point) {
  for (const auto& [name, measurement] : point.metrics) check(box, name.c_str(), measurement);
  if (point.usd_per_mtok) check(box, "usd_per_mtok", *point.usd_per_mtok);
}

void check(const ComparedBox& box) {
  check(box, box.recommended);
  for (const ComparedPoint& point : box.front) check(box, point);
  check(box, "joules_per_mtok", box.joules_per_mtok.value_or(0.0));
  check(box, "own_usd_per_hour", box.own_usd_per_hour.value_or(0.0));
  check(box, "own_usd_per_mtok", box.own_usd_per_mtok.value_or(0.0));
  check(box, "break_even_busy_share", box.break_even_busy_share.value_or(0.0));
  check(box, "break_even_tokens_per_s", box.break_even_tokens_per_s.value_or(0.0));
}

// What all loads are held against: a box that was measured rather than one that was predicted, then the one
// that is cheaper by the hour.
bool is_better_scale(const ComparedBox& box, const ComparedBox& other) {
  if (box.is_predicted != other.is_predicted) return other.is_predicted;
  return *box.price.usd_per_hour < *other.price.usd_per_hour;
}

// The load above which each box costs less than as many of the cheapest.
void settle_loads(Comparison& comparison, const ComparedBox& cheapest) {
  const Rented cheap{*cheapest.price.usd_per_hour, find(cheapest.recommended.metrics, "tokens_per_s")->value};
  for (ComparedBox& box : comparison.boxes) {
    box.is_cheapest_by_the_hour = &box == &cheapest;
    const Measurement* rate = find(box.recommended.metrics, "tokens_per_s");
    if (&box == &cheapest || box.missing_bytes > 0 || box.is_measured_beside || !box.price.usd_per_hour ||
        rate == nullptr || cheap.tokens_per_s <= 0.0)
      continue;
    box.is_cheaper_by_the_hour = *box.price.usd_per_hour < cheap.usd_per_hour;
    if (box.is_cheaper_by_the_hour) continue;
    box.break_even_tokens_per_s = break_even_load({*box.price.usd_per_hour, rate->value}, cheap);
  }
}

}  // namespace

std::vector<std::string> differences(std::span<const LaunchProfile> profiles,
                                     std::span<const std::string> names) {
  std::vector<std::string> found;
  for (const auto& [field, text] : compared_fields()) {
    std::set<std::string> values;
    for (const LaunchProfile& profile : profiles) values.insert(text(profile));
    if (values.size() < 2) continue;
    std::string line = std::string(field) + ":";
    for (std::size_t i = 0; i < profiles.size(); ++i)
      line += fmt::format("{} {} ({})", i == 0 ? "" : ",", text(profiles[i]), names[i]);
    found.push_back(std::move(line));
  }
  return found;
}

std::string box_name(const HardwareFingerprint& hardware, std::int64_t gpu_bytes) {
  if (hardware.gpu_count > 0) {
    std::string name = fmt::format("{} x{}", hardware.device, hardware.gpu_count);
    const auto usable = static_cast<double>(hardware.device_bytes);
    if (usable > 0.0 && usable < least_share_of_a_gpu * static_cast<double>(gpu_bytes))
      name += ", limited to " + value_text("device_bytes", usable);
    return name;
  }
  return hardware.cpu_name.empty()
             ? hardware.device
             : fmt::format("{}: {}, {} cores", hardware.device, hardware.cpu_name, hardware.cpu_cores);
}

ComparedBox compared(const LaunchProfile& profile, const std::string& from, const BoxPrice& price,
                     std::int64_t gpu_bytes) {
  ComparedBox box;
  box.box = box_name(profile.hardware, gpu_bytes);
  box.model = profile.model;
  box.from = from;
  box.price = price;
  box.idle_watts = profile.hardware.idle_watts;
  box.recommended = point_of(profile.recommended, profile.workload.slo);
  const AccuracyGate& gate = gate_named(profile.gate);
  for (const ProfilePoint& point : profile.front)
    if (judge(metrics_of(point), gate).verdict == GateVerdict::met)
      box.front.push_back(point_of(point, profile.workload.slo));
  const GateJudgement judgement = judge(box.recommended.metrics, gate);
  box.accuracy = judgement.verdict == GateVerdict::unknown ? "unknown"
                 : judgement.verdict == GateVerdict::met   ? "meets " + profile.gate
                                                           : "misses " + profile.gate;
  if (profile.synthetic_weights) box.remark = "synthetic weights: accuracy is not known";
  price_from_run(box, profile);
  return box;
}

void settle(Comparison& comparison) {
  const ComparedBox* cheapest = nullptr;
  for (ComparedBox& box : comparison.boxes) {
    if (box.missing_bytes > 0) continue;
    const Measurement* rate =
        box.is_measured_beside ? nullptr : find(box.recommended.metrics, "tokens_per_s");
    if (rate != nullptr) {
      box.recommended.usd_per_mtok = price_of_tokens(box.recommended.metrics, box.price.usd_per_hour);
      for (ComparedPoint& point : box.front)
        point.usd_per_mtok = price_of_tokens(point.metrics, box.price.usd_per_hour);
    }
    const Measurement* joules = find(box.recommended.metrics, "joules_per_token");
    if (joules != nullptr) box.joules_per_mtok = joules->value * 1e6;
    if (!box.price.watts && joules != nullptr && rate != nullptr)
      box.price.watts = joules->value * rate->value;
    if (box.price.buy_usd && box.price.watts && comparison.money.usd_per_kwh) {
      const Owning own = owning(*box.price.buy_usd, comparison.money.years, *box.price.watts, box.idle_watts,
                                *comparison.money.usd_per_kwh);
      box.own_usd_per_hour = own.busy();
      if (rate != nullptr && rate->value > 0.0) box.own_usd_per_mtok = usd_per_mtok(own.busy(), rate->value);
      if (box.price.usd_per_hour) {
        box.break_even_busy_share = break_even_busy_share(own, *box.price.usd_per_hour);
        box.renting_always_cheaper = !box.break_even_busy_share || *box.break_even_busy_share > 1.0;
      }
    }
    if (box.price.usd_per_hour && rate != nullptr && (cheapest == nullptr || is_better_scale(box, *cheapest)))
      cheapest = &box;
  }
  if (cheapest != nullptr) settle_loads(comparison, *cheapest);
  for (const ComparedBox& box : comparison.boxes) check(box);
}

}  // namespace moetune
