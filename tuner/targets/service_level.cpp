#include "tuner/targets/service_level.h"

#include <algorithm>

namespace moetune {

double task_tax_ms(const RunTimes& times, double uncounted_ms) {
  return (times.loading_ms + times.communication_ms) / static_cast<double>(times.task_ms.size()) +
         uncounted_ms;
}

std::int64_t kept_of(const RunTimes& times, const Slo& slo, double uncounted_ms) {
  if (slo.metric == "task_tax")
    return task_tax_ms(times, uncounted_ms) <= slo.limit_ms ? std::ssize(times.task_ms) : 0;
  if (slo.metric.starts_with("task"))
    return std::ranges::count_if(times.task_ms, [&](double ms) { return ms <= slo.limit_ms; });
  return std::ranges::count_if(times.requests, [&](const RequestTimes& request) {
    if (slo.metric.starts_with("ttft")) return request.ttft_ms() <= slo.limit_ms;
    return request.tpot_ms().value_or(0.0) <= slo.limit_ms;  // an answer of one token waits for no second
  });
}

}  // namespace moetune
