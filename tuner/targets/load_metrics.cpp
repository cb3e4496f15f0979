#include "tuner/targets/load_metrics.h"

#include <numeric>

#include "tuner/statistics.h"
#include "tuner/targets/service_level.h"

namespace moetune {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double goodput_of(const RunTimes& times, const Slo& slo, double uncounted_tax_ms) {
  return static_cast<double>(kept_of(times, slo, uncounted_tax_ms)) / times.seconds;
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

Measurement over_runs(const std::vector<double>& runs, const std::vector<double>& single,
                      const std::string& stopped) {
  Measurement measurement = time_measurement(runs, stopped);
  measurement.p99 = p99(single);
  measurement.n = std::ssize(single);
  return measurement;
}

void LoadSamples::add(const RunTimes& times) {
  if (!workload_.slo.metric.empty() && !is_judged_by_tax())
    goodput_per_s_.push_back(goodput_of(times, workload_.slo, 0.0));
  std::vector<double> queue_ms;
  std::vector<double> tpot_ms;
  for (const RequestTimes& request : times.requests) {
    queue_ms.push_back(request.queue_ms());
    if (request.tpot_ms()) tpot_ms.push_back(*request.tpot_ms());
  }
  mean_queue_ms_.push_back(mean(queue_ms));
  append(queue_ms_, queue_ms);
  if (!tpot_ms.empty()) mean_tpot_ms_.push_back(mean(tpot_ms));
  append(tpot_ms_, tpot_ms);
  mean_task_ms_.push_back(mean(times.task_ms));
  append(task_ms_, times.task_ms);
  RunTimes& waits = waits_.emplace_back();
  waits.task_ms = times.task_ms;
  waits.loading_ms = times.loading_ms;
  waits.communication_ms = times.communication_ms;
  waits.seconds = times.seconds;
}

Metrics LoadSamples::metrics(const std::string& stopped, std::optional<double> uncounted_tax_ms) const {
  Metrics metrics;
  std::vector<double> goodput_per_s = goodput_per_s_;
  std::vector<double> tax_ms;
  for (const RunTimes& waits : waits_) {
    if (!uncounted_tax_ms) break;
    tax_ms.push_back(task_tax_ms(waits, *uncounted_tax_ms));
    if (is_judged_by_tax()) goodput_per_s.push_back(goodput_of(waits, workload_.slo, *uncounted_tax_ms));
  }
  if (!goodput_per_s.empty()) {
    const bool is_about_tasks = workload_.slo.metric.starts_with("task");
    Measurement& goodput = metrics[is_about_tasks ? "task_goodput_per_s" : "goodput_per_s"];
    goodput = time_measurement(goodput_per_s, stopped);
    goodput.p99.reset();  // of a rate the high end is the good one
  }
  if (workload_.sequences > 1 || workload_.poisson_arrivals) {
    metrics["queue_ms"] = over_runs(mean_queue_ms_, queue_ms_, stopped);
    if (!tpot_ms_.empty()) metrics["request_tpot_ms"] = over_runs(mean_tpot_ms_, tpot_ms_, stopped);
  }
  if (workload_.rounds > 1) {
    metrics["task_ms"] = over_runs(mean_task_ms_, task_ms_, stopped);
    if (!tax_ms.empty()) metrics["task_tax_ms"] = time_measurement(tax_ms, stopped);
  }
  return metrics;
}

}  // namespace moetune
