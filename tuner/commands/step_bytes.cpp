#include "tuner/commands/step_bytes.h"

#include <cmath>

#include "engine/dense_shapes.h"
#include "engine/memory_plan.h"
#include "engine/shard.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/workload_run.h"

namespace moetune {

StepBytes step_bytes(const ModelSpec& spec, const Configuration& configuration, const Workload& workload,
                     DeviceKind device, double cache_hit) {
  const EngineOptions options = options_of(configuration, device, 0);
  const Shard whole;
  double dense = static_cast<double>(dense_bytes(spec, options, whole));
  // One row of the embedding is read, not the table.
  if (!spec.tied_embeddings)
    dense -= static_cast<double>(model_shape(spec, options, whole).embedding.layout().bytes);

  const double experts = spec.experts;
  const double top_k = options.top_k > 0 ? options.top_k : spec.experts_per_token;
  const double touched = experts * (1.0 - std::pow(1.0 - top_k / experts, workload.sequences));
  const double expert = static_cast<double>(expert_layout(spec, options, whole).bytes);
  const double routed = spec.moe_layer_count() * touched * expert;

  const double kv = static_cast<double>(plan_memory(spec, options, limits_of(workload, options)).kv_bytes);
  const double filled =
      (workload.context_tokens() - workload.output_tokens / 2.0) / workload.context_tokens();
  return {.memory = dense + routed * cache_hit + kv * filled, .link = routed * (1.0 - cache_hit)};
}

}  // namespace moetune
