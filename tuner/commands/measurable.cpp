#include "tuner/commands/measurable.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "tuner/objective.h"

namespace moetune {
namespace {

// In the metric table, measured by nothing yet.
constexpr std::array later_metrics = {"link_gb_s"};
// Of generated weights only the signal-to-noise ratio is known.
constexpr std::array needs_trained_weights = {"kl_mean", "kl_p99", "top1_agreement", "perplexity_ratio",
                                              "route_flip_rate"};

template <class Names>
bool is_one_of(const std::string& metric, const Names& names) {
  return std::ranges::find(names, metric) != names.end();
}

NotMeasurable of_workload(const std::string& metric, const Study& study) {
  const Workload& workload = study.workload;
  const bool has_queue = workload.sequences > 1 || workload.poisson_arrivals;
  const bool tax_is_counted = study.device == DeviceKind::cpu;
  if (is_one_of(metric, std::array{"tpot_ms", "request_tpot_ms"}) && workload.output_tokens == 1)
    return {"answers of workload " + workload.name + " are one token long",
            "ttft_ms, or output_tokens above 1"};
  if (is_one_of(metric, std::array{"queue_ms", "request_tpot_ms"}) && !has_queue)
    return {"workload " + workload.name + " has one request at a time",
            "a workload with sequences or arrivals, such as throughput"};
  if (is_one_of(metric, std::array{"task_ms", "task_tax_ms"}) && workload.rounds == 1)
    return {"workload " + workload.name + " has one round", "a workload with rounds, such as agent"};
  if (metric == "ttft_whole_ms" && !(workload.prewarmed && workload.typed_pieces > 1))
    return {"no prompt of workload " + workload.name + " is read while it is typed",
            "a workload that is, such as completion"};
  const bool is_about_tasks = workload.slo.metric.starts_with("task");
  if (metric == "goodput_per_s" && is_about_tasks)
    return {"the service level of workload " + workload.name + " is about tasks", "task_goodput_per_s"};
  if (metric == "task_goodput_per_s" && !workload.slo.metric.empty() && !is_about_tasks)
    return {"the service level of workload " + workload.name + " is about requests", "goodput_per_s"};
  if (is_one_of(metric, std::array{"goodput_per_s", "task_goodput_per_s"}) && workload.slo.metric.empty())
    return {"workload " + workload.name + " has no service level", "--slo, or slo in the workload file"};
  const bool needs_tax =
      metric == "task_tax_ms" || (metric == "task_goodput_per_s" && workload.slo.metric == "task_tax");
  if (needs_tax && !tax_is_counted)
    return {"nothing counts launches and waits of a GPU", "--device cpu, or a service level on task"};
  return {};
}

}  // namespace

NotMeasurable why_not_measurable(const std::string& metric, const Study& study) {
  if (study.made_up) return {};
  if (is_one_of(metric, later_metrics))
    return {"this build does not measure it", "see 'moetune list metrics'"};
  if (study.model.is_synthetic && is_one_of(metric, needs_trained_weights))
    return {study.model.name + " has synthetic weights",
            "output_snr_db, router_mass, or what is no accuracy"};
  if (is_one_of(metric, std::array{"route_flip_rate", "router_mass"}) && study.model.moe_layer_count() == 0)
    return {study.model.name + " routes nothing", "a model with routed experts"};
  if (metric.starts_with("tax_") && study.device != DeviceKind::cpu)
    return {"where a token's time goes is recorded on the CPU engine only", "--device cpu"};
  if (metric == "usd_per_mtok" && !study.conditions.contains("usd_per_hour"))
    return {"no price of this machine is known", "--usd-per-hour beside it"};
  if (metric == "joules_per_token" && !study.counts_energy)
    return {"nothing counts the energy of what is measured here", "a GPU with an energy counter"};
  return of_workload(metric, study);
}

void require_measurable(const std::string& objectives, const Study& study) {
  for (const Objective& objective : objectives_named(objectives))
    if (const NotMeasurable why = why_not_measurable(objective.metric, study); !why.reason.empty())
      throw InputError("--objective", fmt::format("'{}' is not known: {}", objective.metric, why.reason),
                       why.accepted);
}

}  // namespace moetune
