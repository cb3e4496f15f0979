#include "tuner/commands/tax_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "engine/dense_twin.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "tuner/targets/engine_target.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr std::int64_t seeded_tokens = 1 << 16;  // where there is no text
constexpr int most_swept_sequences = 32;
constexpr int shortest_swept_prompt = 32;

// One round: what grows with sequences and prompts shows in it, and an agent's twelve with 32 sequences take
// a CPU minutes.
std::vector<Workload> swept_sequences(const Workload& workload) {
  std::vector<Workload> points;
  for (int sequences = 1; sequences <= most_swept_sequences; sequences *= 2) {
    points.push_back(workload);
    points.back().sequences = sequences;
    points.back().rounds = 1;
  }
  return points;
}

std::vector<Workload> swept_prompts(const Workload& workload, int max_context) {
  std::vector<Workload> points;
  for (int prompt = shortest_swept_prompt; prompt <= 4 * workload.prompt_tokens; prompt *= 2) {
    Workload point = workload;
    point.prompt_tokens = prompt;
    point.rounds = 1;
    if (point.context_tokens() > max_context) break;
    points.push_back(point);
  }
  return points;
}

std::vector<SweepPoint> sweep(const TaxModel& model, const std::vector<Workload>& workloads,
                              bool is_sequences, const CommonOptions& common, double seconds,
                              std::int64_t device_bytes) {
  std::vector<SweepPoint> points;
  for (const Workload& workload : workloads) {
    SweepPoint point{.value = is_sequences ? workload.sequences : workload.prompt_tokens,
                     .objection = "",
                     .decode = {},
                     .prefill = {}};
    TaxModel one = model;
    one.workload = workload;
    if (const auto objection = one.objection(device_bytes)) {
      point.objection = *objection;
    } else {
      TaxResult tax = one.tax(common, seconds / static_cast<double>(workloads.size()),
                              fmt::format("{} {}", point.value, is_sequences ? "sequences" : "prompt tokens"))
                          .result;
      point.decode = std::move(tax.decode);
      point.prefill = std::move(tax.prefill);
    }
    points.push_back(std::move(point));
  }
  return points;
}

// One run of a point: prompts by their tokens, steps by the sequences in them. A processor with nothing left
// to share between sequences is that slow; what gains by them, as a GPU does, is done earlier.
double run_seconds(const Workload& point, const Workload& measured, const TaxResult& tax) {
  const double prompt_tokens =
      measured.prompt_tokens + (measured.rounds - 1.0) * measured.round_prompt_tokens;
  const double prompt_ns =
      tax.prefill.typical.token_ns * measured.rounds / prompt_tokens * point.prompt_tokens * point.sequences;
  const double steps_ns =
      tax.decode.typical.token_ns * point.sequences / measured.sequences * (point.output_tokens - 1.0);
  return (prompt_ns + steps_ns) / 1e9 + (point.typed_pieces - 1.0) * point.piece_gap_seconds;
}

}  // namespace

std::optional<std::string> TaxModel::objection(std::int64_t device_bytes) const {
  return objection_to(checkpoint->spec(), options, limits_of(workload, options), device_bytes);
}

TaxOfModel TaxModel::tax(const CommonOptions& common, double seconds, const std::string& what) const {
  const TokenSource text = calibration_tokens(*checkpoint, common.calibration, seeded_tokens);
  const auto begin = std::chrono::steady_clock::now();
  Engine engine(checkpoint, options, limits_of(workload, options));
  const std::chrono::duration<double> loading = std::chrono::steady_clock::now() - begin;
  common.console.log(fmt::format("{}: runs with and without recording, in turns", what));
  return {.result = measure_tax(engine, workload, text, seconds, {}), .load_seconds = loading.count()};
}

TaxModel dense_twin_of(const TaxModel& model) {
  const ModelSpec& spec = model.checkpoint->spec();
  EngineOptions options = default_options(model.options.device);
  options.cpu_threads = model.options.cpu_threads;
  options.tensor_parallel = model.options.tensor_parallel;
  options.dense_quant = model.options.dense_quant;
  options.kv_type = model.options.kv_type;
  options.prefill_chunk = model.options.prefill_chunk;
  const Preset twin = dense_twin(spec, effective_top_k(spec, model.options));
  return {std::make_shared<const Checkpoint>(twin), options, model.workload};
}

SweepCost sweep_cost(const TaxModel& model, const TaxOfModel& measured, double budget_seconds,
                     std::int64_t device_bytes) {
  const Workload& own = model.workload;
  const int runs = fewest_tax_runs(model.options.device);
  SweepCost cost;
  for (const auto& workloads :
       {swept_sequences(own), swept_prompts(own, model.checkpoint->spec().max_context)})
    for (const Workload& workload : workloads) {
      TaxModel point = model;
      point.workload = workload;
      if (point.objection(device_bytes)) continue;
      ++cost.points;
      cost.seconds += measured.load_seconds + std::max(budget_seconds / static_cast<double>(workloads.size()),
                                                       runs * run_seconds(workload, own, measured.result));
    }
  return cost;
}

std::vector<SweepPoint> sweep_sequences(const TaxModel& model, const CommonOptions& common, double seconds,
                                        std::int64_t device_bytes) {
  return sweep(model, swept_sequences(model.workload), true, common, seconds, device_bytes);
}

std::vector<SweepPoint> sweep_prompts(const TaxModel& model, const CommonOptions& common, double seconds,
                                      std::int64_t device_bytes) {
  const int max_context = model.checkpoint->spec().max_context;
  return sweep(model, swept_prompts(model.workload, max_context), false, common, seconds, device_bytes);
}

}  // namespace moetune
