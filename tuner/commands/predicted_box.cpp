#include "tuner/commands/predicted_box.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/accuracy_gate.h"
#include "tuner/choose.h"
#include "tuner/commands/step_bytes.h"
#include "tuner/contender.h"
#include "tuner/counted.h"
#include "tuner/launch_profile.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

const Measurement* find(const Metrics& metrics, const char* name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? nullptr : &found->second;
}

double cache_hit_of(const Metrics& metrics) {
  const Measurement* hit = find(metrics, "cache_hit");
  return hit == nullptr ? 1.0 : hit->value;
}

std::string format_of(const ProfilePoint& point) {
  const auto found = point.configuration.find("expert_quant");
  return found == point.configuration.end() ? "checkpoint" : found->second;
}

// Ranks of a CPU share its memory; on a box of GPUs each would take one, and one is all that is predicted.
bool takes_one_device(const ProfilePoint& point) {
  return std::ranges::all_of(std::array{"tensor_parallel", "expert_parallel"}, [&](const char* knob) {
    const auto ranks = point.configuration.find(knob);
    return ranks == point.configuration.end() || ranks->second == "1";
  });
}

// Where a processor's configuration would run on a GPU: what only a processor has to choose falls away.
Configuration on_gpu(const ProfilePoint& point) {
  Configuration configuration{point.configuration};
  if (const auto router = configuration.values.find("router"); router != configuration.values.end())
    router->second = "gpu";
  configuration.values.erase("cpu_threads");
  return configuration;
}

// May it be recommended, as far as accuracy goes?
bool accurate_enough(const MeasuredRun& run, const ProfilePoint& point, const Metrics& metrics) {
  const GateVerdict verdict = judge(metrics, gate_named(run.profile.gate)).verdict;
  if (verdict != GateVerdict::unknown) return verdict == GateVerdict::met;
  const ProfilePoint& usual =
      run.profile.default_point ? *run.profile.default_point : run.profile.recommended;
  return keeps_accuracy({point.configuration}, {usual.configuration});
}

Measurement predicted(double value) {
  Measurement measurement;
  measurement.value = value;
  measurement.origin = Origin::predicted;
  return measurement;
}

// Seconds of one answer: its prompt, then token by token.
double answer_ms(double ttft_ms, double tpot_ms, const Workload& workload) {
  return ttft_ms + tpot_ms * (workload.output_tokens - 1);
}

// time_scale: of a decoding step on that box over one here. A prompt is limited by arithmetic as much as by
// memory; it is scaled alike, which the remark of the box says.
Metrics carried_over(const Metrics& metrics, double tpot_ms, const Workload& workload) {
  Metrics made;
  const double own_tpot = metrics.at("tpot_ms").value;
  made["tpot_ms"] = predicted(tpot_ms);
  for (const char* same :
       {"device_bytes", "kl_mean", "top1_agreement", "output_snr_db", "router_mass", "cache_hit"})
    if (const Measurement* measured = find(metrics, same)) {
      made[same] = *measured;
      made[same].origin = Origin::predicted;  // of the other box nobody has measured it
    }
  const Measurement* ttft = find(metrics, "ttft_ms");
  const Measurement* rate = find(metrics, "tokens_per_s");
  if (ttft == nullptr || rate == nullptr) return made;
  const double ttft_ms = ttft->value * tpot_ms / own_tpot;
  made["ttft_ms"] = predicted(ttft_ms);
  made["tokens_per_s"] = predicted(rate->value * answer_ms(ttft->value, own_tpot, workload) /
                                   answer_ms(ttft_ms, tpot_ms, workload));
  return made;
}

std::string remark_of(const MeasuredRun& run, const Roofline& roofline) {
  std::string text =
      "predicted from " + box_name(run.profile.hardware) + " by bytes moved over the rates of both boxes";
  text += roofline.held_out == 0
              ? "; too few trials to say its error"
              : fmt::format("; on {} held out there it was off by {:.0f} % (median), {:.0f} % at worst",
                            counted(roofline.held_out, "trial"), 100.0 * roofline.median_error,
                            100.0 * roofline.worst_error);
  text +=
      ". That error is of the box it was fitted on; launches, arithmetic and communication of another one "
      "are not in it, and the "
      "time of a prompt is scaled like that of a token";
  if (run.profile.hardware.gpu_count == 0)
    text +=
        ". MEASURED ON A CPU, with the router there: the column has it on the GPU, whose own limits are not "
        "in it at all, so take it for the least it can take, "
        "not for what it takes";
  return text;
}

}  // namespace

ComparedBox predicted_box(const MeasuredRun& run, const CatalogueBox& box, const CatalogueBox* own) {
  const LaunchProfile& profile = run.profile;
  if (profile.hardware.memory_gb_per_s <= 0.0)
    throw InputError("--with " + box.name,
                     "the memory rate of " + box_name(profile.hardware) + " was not measured",
                     "a profile that has it");
  const double reached = own == nullptr ? 1.0 : profile.hardware.memory_gb_per_s / own->memory_gb_per_s;
  const BoxRates here{profile.hardware.memory_gb_per_s, profile.hardware.link_gb_per_s};
  const BoxRates there{box.memory_gb_per_s * reached, box.link_gb_per_s};

  const DeviceKind device = profile.hardware.gpu_count > 0 ? DeviceKind::cuda : DeviceKind::cpu;
  struct Carried {
    const ProfilePoint* point;
    Metrics metrics;
    StepBytes bytes;
  };
  std::vector<Carried> trials;
  std::vector<RooflinePoint> measured;
  for (const ProfilePoint& point : run.points) {
    Metrics metrics = metrics_of(point);
    const Measurement* tpot = find(metrics, "tpot_ms");
    if (tpot == nullptr || !metrics.contains("device_bytes")) continue;
    const StepBytes bytes =
        step_bytes(run.model, {point.configuration}, profile.workload, device, cache_hit_of(metrics));
    measured.push_back({format_of(point), floor_ms(bytes, here), tpot->value});
    trials.push_back({&point, std::move(metrics), bytes});
  }
  const std::optional<Roofline> roofline = fit_roofline(measured);
  if (!roofline)
    throw InputError("--with " + box.name, "no trial of the profile has tpot_ms and device_bytes",
                     "a profile that has them");

  ComparedBox made;
  made.box = fmt::format("{} x{}", box.device, box.gpu_count);
  made.model = profile.model;
  made.from = box.name;
  made.is_predicted = true;
  made.is_fastest_possible = device == DeviceKind::cpu;
  made.remark = remark_of(run, *roofline);
  if (box.gpu_count > 1) made.remark += "; of its " + std::to_string(box.gpu_count) + " GPUs one is used";
  made.price = price_with_note(box);

  const Slo& slo = profile.workload.slo;
  std::int64_t least = 0;
  const ComparedPoint* best = nullptr;
  made.front.reserve(trials.size());
  for (const Carried& trial : trials) {
    if (!takes_one_device(*trial.point) || !accurate_enough(run, *trial.point, trial.metrics)) continue;
    // A file may say anything: what an integer cannot hold does not fit into any box.
    const auto bytes =
        static_cast<std::int64_t>(std::clamp(trial.metrics.at("device_bytes").value, 0.0, 1e18));
    if (least == 0 || bytes < least) least = bytes;
    if (bytes > box.memory_bytes) continue;
    ComparedPoint point{.configuration = device == DeviceKind::cpu
                                             ? on_gpu(*trial.point)
                                             : Configuration{trial.point->configuration},
                        .metrics = {},
                        .keeps_slo = {},
                        .usd_per_mtok = {}};
    point.metrics = carried_over(
        trial.metrics, predicted_ms(*roofline, format_of(*trial.point), floor_ms(trial.bytes, there)),
        profile.workload);
    // A p99 is not predicted: only a median that is above its level says something about it.
    if (!slo.metric.empty()) point.keeps_slo = keeps(slo, point.metrics);
    made.front.push_back(std::move(point));
  }
  for (const ComparedPoint& point : made.front)
    if (best == nullptr || point.metrics.at("tpot_ms").value < best->metrics.at("tpot_ms").value)
      best = &point;
  if (best == nullptr) {
    made.front.clear();
    made.missing_bytes = std::max<std::int64_t>(1, least - box.memory_bytes);
    return made;
  }
  made.recommended = *best;
  const GateVerdict verdict = judge(best->metrics, gate_named(profile.gate)).verdict;
  made.accuracy = verdict == GateVerdict::met ? "meets " + profile.gate : "unknown";
  return made;
}

}  // namespace moetune
