#include "engine/facts/workload.h"

#include <algorithm>

#include "engine/facts/error.h"

namespace moetune {
namespace {
std::vector<Workload> named_workloads() {
  std::vector<Workload> all(5);
  all[0] = {.name = "chat", .prompt_tokens = 512, .output_tokens = 128, .slo = {"tpot_p99", 50.0}};
  all[1] = {.name = "completion",
            .prompt_tokens = 1024,
            .output_tokens = 16,
            .typed_pieces = 8,
            .piece_gap_seconds = 0.1,
            .prewarmed = true,
            .slo = {"ttft_p99", 200.0}};
  all[2] = {.name = "agent",
            .prompt_tokens = 2048,
            .output_tokens = 32,
            .rounds = 12,
            .round_prompt_tokens = 128,
            .tool_gap_seconds = 0.5,
            .slo = {"task_tax", 1000.0}};
  all[3] = {.name = "long_context", .prompt_tokens = 32768, .output_tokens = 128, .slo = {"ttft", 10000.0}};
  all[4] = {.name = "throughput",
            .prompt_tokens = 512,
            .output_tokens = 128,
            .sequences = 32,
            .poisson_arrivals = true,
            .slo = {"tpot_p99", 100.0}};
  for (const int sequences : {64, 256}) {  // the same load on a larger batch
    all.push_back(all[4]);
    all.back().name += "_" + std::to_string(sequences);
    all.back().sequences = sequences;
  }
  return all;
}
}  // namespace

Workload workload_named(const std::string& name) {
  std::string accepted;
  for (const Workload& workload : named_workloads()) {
    if (workload.name == name) return workload;
    accepted += (accepted.empty() ? "" : ", ") + workload.name;
  }
  throw InputError("--workload", "no workload named '" + name + "'", accepted);
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const Workload& workload : named_workloads()) names.push_back(workload.name);
  return names;
}

std::vector<std::string> slo_metrics() {
  return {"tpot_p99", "ttft_p99", "tpot", "ttft", "task", "task_p99", "task_tax"};
}

Workload quarter_lengths(Workload workload) {
  const auto quarter = [](int tokens) { return std::max(1, tokens / 4); };
  workload.prompt_tokens = quarter(workload.prompt_tokens);
  workload.output_tokens = quarter(workload.output_tokens);
  if (workload.round_prompt_tokens > 0) workload.round_prompt_tokens = quarter(workload.round_prompt_tokens);
  return workload;
}

Workload fitted_to_context(Workload workload, int max_context) {
  const int needed = workload.context_tokens();
  if (needed <= max_context) return workload;
  const int excess = needed - max_context;
  if (workload.prompt_tokens - excess >= workload.output_tokens) {
    workload.prompt_tokens -= excess;  // enough of a prompt is left: the answer keeps its length
    return workload;
  }
  const auto scaled = [&](int tokens) {
    return static_cast<int>(std::int64_t{tokens} * max_context / needed);
  };
  workload.prompt_tokens = scaled(workload.prompt_tokens);
  workload.output_tokens = scaled(workload.output_tokens);
  workload.round_prompt_tokens = scaled(workload.round_prompt_tokens);
  const bool lost_a_part = workload.prompt_tokens < 1 || workload.output_tokens < 1 ||
                           (workload.rounds > 1 && workload.round_prompt_tokens < 1);
  if (lost_a_part)
    throw InputError("workload " + workload.name,
                     "needs more context than the model's " + std::to_string(max_context) + " tokens",
                     "a workload whose output and rounds fit");
  return workload;
}

}  // namespace moetune
