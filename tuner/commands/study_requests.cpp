#include "tuner/commands/study_requests.h"

#include <string>

#include <fmt/format.h>

#include "moetune/build_info.h"
#include "tuner/json_facts.h"

namespace moetune {

RunRequest run_request_of(const Study& study, const Configuration& default_configuration) {
  RunRequest request;
  request.model = study.model.name;
  request.model_hash = study.model.content_hash;
  request.workload = study.workload.name;
  request.default_configuration = to_json_value(default_configuration);
  request.conditions = study.conditions;
  const Slo& slo = study.workload.slo;
  request.slo = slo.metric.empty() ? "" : fmt::format("{}={:g}ms", slo.metric, slo.limit_ms);
  request.build = fmt::format("{} {}", build_info::version, build_info::commit);
  return request;
}

TuneRequest tune_request_of(const Study& study, const Configuration& default_configuration,
                            std::span<const Objective> objectives, std::uint64_t seed, Progress& progress) {
  TuneRequest request;
  request.default_configuration = default_configuration;
  request.objection = study.objection;
  request.objectives = objectives;
  request.seed = seed;
  request.on_status = [&progress](const TuneStatus& status) { progress.show(status); };
  request.on_message = [&progress](const std::string& line) { progress.message(line); };
  return request;
}

}  // namespace moetune
