#include "tuner/targets/engine_target.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <new>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "engine/checkpoint.h"
#include "engine/content_hash.h"
#include "engine/facts/error.h"
#include "engine/facts/knobs.h"
#include "engine/memory_plan.h"
#include "engine/option_rules.h"
#include "engine/sync_tax/injection.h"
#include "kernels/device_trace.h"
#include "kernels/gpu_facts.h"
#include "tuner/json_fields.h"
#include "tuner/statistics.h"
#include "tuner/targets/arrivals.h"
#include "tuner/targets/latency.h"
#include "tuner/targets/run_watch.h"
#include "tuner/targets/tax_run.h"
#include "tuner/targets/teacher_forcing.h"
#include "tuner/targets/throttle.h"
#include "tuner/targets/workload_run.h"

namespace moetune {
namespace {

constexpr std::int64_t seeded_tokens = 1 << 16;  // where there is no text

Measurement price_per_million_tokens(const Measurement& tokens_per_s, double usd_per_hour) {
  const auto usd = [&](double rate) { return usd_per_hour / 3600.0 / rate * 1e6; };
  Measurement price = tokens_per_s;
  price.value = usd(tokens_per_s.value);
  price.low.reset();
  price.high.reset();
  if (tokens_per_s.high) price.low = usd(*tokens_per_s.high);
  if (tokens_per_s.low) price.high = usd(*tokens_per_s.low);
  price.p99.reset();
  return price;
}

void say_line(const std::string& line) { fmt::print(stderr, "{}\n", line); }

// As part of a file name.
std::string plain_name(std::string name) {
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '-');
  return name;
}

// Where it has no energy counter, the probe of the tuner has said so.
std::optional<GpuPower> power_of_gpu() {
#if MOETUNE_HAS_CUDA
  return GpuPower(gpu_bus_id(0));
#else
  return std::nullopt;
#endif
}

}  // namespace

EngineOptions options_of(const Configuration& configuration, DeviceKind device, int threads) {
  EngineOptions options = default_options(device);
  options.cpu_threads = threads;
  for (const auto& [name, value] : configuration.values) set_knob(options, name, value);
  return options;
}

EngineTarget::EngineTarget(EngineTargetSetup setup, const ProgressWords& progress)
    : setup_(std::move(setup)), checkpoint_(open_checkpoint(setup_.model_directory)) {
  const ModelSpec& spec = checkpoint_->spec();
  text_ = calibration_tokens(*checkpoint_, setup_.calibration_file, seeded_tokens);
  if (setup_.timing_only) return;
  ScoredText scored = text_to_score(spec, text_);
  if (setup_.device == DeviceKind::cuda) power_ = power_of_gpu();
  reference_device_ = reference_device(scored);
  const std::string gpu = reference_device_ == DeviceKind::cuda ? plain_name("-" + setup_.device_name) : "";
  reference_ = std::make_unique<Reference>(checkpoint_, std::move(scored),
                                           ReferenceSettings{.device = reference_device_,
                                                             .threads = setup_.threads,
                                                             .store_folder = ReferenceStore::default_folder(),
                                                             .build = reference_build_key() + gpu,
                                                             .on_progress = progress,
                                                             .on_message = say_line});
  // Now, so that the first trial does not pay for it.
  for (int group = 0; group < base_groups(reference_->text(), spec); ++group) reference_->group(group);
  if (!spec.is_synthetic) reference_->floor_kl();
}

TargetResult EngineTarget::measure(const Configuration& configuration, std::uint64_t,
                                   const ProgressWords& progress) {
  const auto say = progress ? progress : [](const std::string&) {};
  try {
    return measure_options(options_of(configuration, setup_.device, setup_.threads), configuration.key(),
                           say);
  } catch (const RunTooLong& error) {
    return {Outcome::timed_out,
            std::string(error.what()) +
                ": it is run several times within a third of --budget, or within --trial-limit",
            {}};
  } catch (const InputError& error) {
    return {Outcome::infeasible, error.what(), {}};
  } catch (const std::bad_alloc&) {
    scoring_engine_.reset();
    workload_engine_.reset();
    return {Outcome::out_of_memory, "no memory for weights, expert cache or KV cache", {}};
  }
}

bool EngineTarget::take_over(const nlohmann::json& setup) {
  const JsonFields fields(setup, "worker setup");
  if (fields.text("target") != "engine") return false;
  EngineTargetSetup wanted = engine_target_setup_from_json(fields.object("engine"), fields.place("engine"));
  EngineTargetSetup same = setup_;
  same.workload = wanted.workload;
  same.latency_seconds = wanted.latency_seconds;
  same.longest_run_seconds = wanted.longest_run_seconds;
  same.study_folder = wanted.study_folder;
  if (to_json_value(same) != to_json_value(wanted)) return false;
  setup_ = std::move(wanted);
  found_arrivals_ = false;
  return true;
}

TargetResult EngineTarget::measure_options(const EngineOptions& options, const std::string& name,
                                           const ProgressWords& progress) {
  if (const auto objection = objection_to_load(setup_.workload, options))
    return {Outcome::infeasible, objection->text(), {}};
  const EngineLimits limits = limits_of(setup_.workload, options);
  if (const auto objection = objection_to(checkpoint_->spec(), options, limits, setup_.device_memory_bytes))
    return {Outcome::infeasible, *objection, {}};
  if (setup_.recording_only) return recorded(workload_engine(options, progress), progress);
  settle_arrivals(options, name, progress);
  load_seconds_ = 0.0;
  if (setup_.timing_only)
    return {.outcome = Outcome::ok,
            .reason = "",
            .metrics = timed_metrics(workload_engine(options, progress), progress)};

  const KnownOutput& output = output_of(options, progress);
  if (!output.accuracy.wrong.empty()) return {Outcome::wrong_output, output.accuracy.wrong, {}};
  Engine& engine = workload_engine(options, progress);
  if (const std::string objection = probe_objection(engine, output, reference_->text()); !objection.empty())
    return {Outcome::wrong_output, objection, {}};

  TargetResult result{.outcome = Outcome::ok, .reason = "", .metrics = timed_metrics(engine, progress)};
  result.metrics.insert(output.accuracy.metrics.begin(), output.accuracy.metrics.end());
  if (!checkpoint_->spec().is_synthetic)
    result.metrics["kl_floor"] = exact_measurement(reference_->floor_kl());
  return result;
}

double EngineTarget::run_limit() const {
  return setup_.longest_run_seconds > 0.0 ? setup_.longest_run_seconds : no_limit;
}

// Half the limit of a run: whoever finds the rate runs as often for it as for being timed.
double EngineTarget::default_arrival_rate(const ProgressWords& progress) {
  const ModelSpec& spec = checkpoint_->spec();
  EngineOptions options = default_options(setup_.device);
  options.cpu_threads = setup_.threads;
  const double share =
      largest_cache_fraction(spec, options, limits_of(setup_.workload, options), setup_.device_memory_bytes);
  if (share == 0.0)
    throw InputError("workload " + setup_.workload.name,
                     "the default configuration does not fit, so that its rate of arrivals is unknown",
                     "arrivals_per_s in a workload file");
  options.expert_cache_fraction = share;
  return arrival_share *
         completed_per_s(workload_engine(options, progress), setup_.workload, text_, {}, run_limit() / 2.0);
}

void EngineTarget::settle_arrivals(const EngineOptions& measured, const std::string& name,
                                   const ProgressWords& progress) {
  Workload& workload = setup_.workload;
  if (!workload.poisson_arrivals || workload.arrivals_per_s > 0.0) return;
  found_arrivals_ = true;
  ArrivalRate rate = read_arrival_rate(setup_.study_folder);
  std::string why = rate.per_s > 0.0 ? "" : read_why_no_default_rate(setup_.study_folder);
  if (rate.per_s == 0.0) {
    progress("finding the rate of arrivals");
    if (why.empty()) {
      try {
        rate.per_s = default_arrival_rate(progress);
      } catch (const RunTooLong& error) {
        why = error.what();
        write_why_no_default_rate(setup_.study_folder, why);  // or the next process finds out again
      }
    }
    if (!why.empty()) {
      rate.per_s = arrival_share * completed_per_s(workload_engine(measured, progress), workload, text_, {},
                                                   run_limit() / 2.0);
      rate.note = fmt::format("{:g} of what {} completes, not of the default configuration: {}",
                              arrival_share, name, why);
      say_line(fmt::format("requests arrive at {:.3g} per second: {}", rate.per_s, rate.note));
    }
    if (const std::string problem = write_arrival_rate(setup_.study_folder, rate); !problem.empty())
      say_line("the rate of arrivals cannot be kept, every process finds its own: " + problem);
  }
  workload.arrivals_per_s = rate.per_s;
  arrivals_note_ = rate.note;
}

// Of the device that computes: a CPU that is held back while a GPU computes shows in the times of few
// workloads.
ThrottleCounter EngineTarget::throttle_counter() {
  if (setup_.device == DeviceKind::cpu) return cpu_throttle_counter();
  if (!heat_) heat_ = power_of_gpu();
  if (!heat_) return {};
  return [this] { return heat_->slowed_by_heat_ns(); };
}

Metrics EngineTarget::timed_metrics(Engine& engine, const ProgressWords& progress) {
  // On a GPU whoever observes also cuts its graphs, which costs every layer far more than a small delay.
  if (setup_.injected_delay_ms > 0.0 && setup_.device == DeviceKind::cuda)
    engine.inject({.router_spin_ns = std::llround(1e6 * setup_.injected_delay_ms)});
  else if (setup_.injected_delay_ms > 0.0)
    engine.observe_routing([delay = std::chrono::duration<double, std::milli>(setup_.injected_delay_ms)](
                               auto&&...) { std::this_thread::sleep_for(delay); });
  const bool counts_energy = power_ && power_->problem().empty();
  RunWatch watch(setup_.samples_out, throttle_counter());
  // Recording a GPU makes later launches of the process slower: see recorded().
  const bool can_record = setup_.device == DeviceKind::cpu;
  std::optional<TaxResult> tax;
  const auto record = [&](std::size_t fewest_turns) {
    progress("recording where the time goes");
    tax = measure_tax(engine, setup_.workload, text_, 0.0, {}, nullptr, fewest_turns);
  };
  const auto record_task = [&]() -> std::optional<double> {
    if (!can_record) return std::nullopt;
    record(1);
    if (!tax->task.refused.empty()) {
      say_line("task_tax_ms is not known: " + tax->task.refused);
      return std::nullopt;
    }
    return tax->task.uncounted_ns() / 1e6;
  };
  const LatencyResult latency = measure_latency(
      engine, setup_.workload, text_, setup_.latency_seconds, progress,
      counts_energy ? EnergyCounter([this] { return power_->joules(); }) : EnergyCounter(), StepPrice(),
      [&](const RunTimes& times, bool is_warm_up) { return watch.add(times, is_warm_up); }, record_task,
      run_limit());
  if (!latency.no_energy.empty()) say_line("joules_per_token is not known: " + latency.no_energy);
  Metrics metrics = latency.metrics;
  if (found_arrivals_) {
    metrics["arrivals_per_s"] = exact_measurement(setup_.workload.arrivals_per_s);
    metrics["arrivals_per_s"].stopped = arrivals_note_;
  }
  metrics["device_bytes"] = exact_measurement(static_cast<double>(latency.stats.device_bytes));
  metrics["host_bytes"] = exact_measurement(static_cast<double>(latency.stats.host_bytes));
  metrics["load_seconds"] = exact_measurement(load_seconds_);
  metrics["cache_hit"] = exact_measurement(latency.stats.cache_hit());
  metrics["cache_hit"].n = latency.stats.expert_hits + latency.stats.expert_misses;
  if (engine.options().prefetch != Prefetch::none && latency.stats.tokens > 0)
    metrics["prefetch_in_vain"] = exact_measurement(static_cast<double>(latency.stats.expert_bytes_in_vain) /
                                                    static_cast<double>(latency.stats.tokens));
  if (can_record && !tax &&
      is_worth_recording(setup_.workload, metrics.at("tokens_per_s").value, setup_.latency_seconds))
    record(kFewestTurns);
  if (tax) metrics.merge(tax_metrics(tax->decode.typical));
  if (setup_.usd_per_hour > 0.0)
    metrics["usd_per_mtok"] = price_per_million_tokens(metrics.at("tokens_per_s"), setup_.usd_per_hour);
  return metrics;
}

// Few runs: every token is a sample.
TargetResult EngineTarget::recorded(Engine& engine, const ProgressWords& progress) {
  if (setup_.device == DeviceKind::cuda)
    if (const std::string problem = DeviceTrace::why_not(); !problem.empty())
      return {Outcome::infeasible, problem, {}};
  const Breakdown decode =
      measure_tax(engine, setup_.workload, text_, 0.0, progress, nullptr, 1).decode.typical;
  TargetResult result{.outcome = Outcome::ok, .reason = decode.refused, .metrics = tax_metrics(decode)};
  for (auto& [name, measurement] : result.metrics)
    measurement.stopped = "recorded once more, in a process of its own";
  return result;
}

const KnownOutput& EngineTarget::output_of(const EngineOptions& options, const ProgressWords& progress) {
  const ModelSpec& spec = checkpoint_->spec();
  EngineOptions scored = options;
  scored.max_sequences = 0;  // of the workload; scoring has sequences of its own
  if (!couples_sequences(options)) {
    // Where experts lie does not change what they compute: all of them resident is the fastest way to the
    // same logits, and probe_objection() checks that it is the same.
    scored.expert_cache_bytes = 0;
    scored.expert_cache_fraction = 1.0;
  }
  const std::string key = output_key(scored);
  if (const auto known = outputs_.find(key); known != outputs_.end() && !couples_sequences(options))
    return known->second;

  const EngineLimits limits =
      forcing_limits(reference_->text(), couples_sequences(options) ? 1 : ScoredText::windows_per_group);
  if (objection_to(spec, scored, limits, setup_.device_memory_bytes)) {
    scored = options;
    scored.max_sequences = 0;
  }
  const bool reusable = scoring_engine_ && scoring_engine_->limits().sequences == limits.sequences;
  if (!reusable || !scoring_engine_->reconfigure(scored)) {
    progress("loading, to score accuracy");
    scoring_engine_.reset();  // before the next one takes its memory
    if (!fits_beside(workload_engine_.get(), scored, limits)) workload_engine_.reset();
    scoring_engine_ = std::make_unique<Engine>(checkpoint_, scored, limits);
  }
  return outputs_[key] = score_output(*scoring_engine_, *reference_, most_groups(), progress);
}

Engine& EngineTarget::workload_engine(const EngineOptions& options, const ProgressWords& progress) {
  if (!workload_engine_ || !workload_engine_->reconfigure(options, limits_of(setup_.workload, options))) {
    progress("loading");
    const auto begin = std::chrono::steady_clock::now();
    workload_engine_.reset();
    if (!fits_beside(scoring_engine_.get(), options, limits_of(setup_.workload, options)))
      scoring_engine_.reset();
    workload_engine_ = std::make_unique<Engine>(checkpoint_, options, limits_of(setup_.workload, options));
    load_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return *workload_engine_;
}

bool EngineTarget::fits_beside(const Engine* other, const EngineOptions& options,
                               const EngineLimits& limits) const {
  if (other == nullptr || setup_.device_memory_bytes == 0) return true;
  return plan_memory(checkpoint_->spec(), options, limits).total() + planned_bytes(other) <=
         setup_.device_memory_bytes;
}

std::int64_t EngineTarget::planned_bytes(const Engine* engine) const {
  return engine == nullptr ? 0
                           : plan_memory(checkpoint_->spec(), engine->options(), engine->limits()).total();
}

// The reference is computed where the configurations run, so that they differ from it in their knobs only; on
// the CPU where a GPU cannot hold the checkpoint's own number types.
DeviceKind EngineTarget::reference_device(const ScoredText& text) const {
  if (setup_.device == DeviceKind::cpu) return DeviceKind::cpu;
  const auto objection =
      objection_to(checkpoint_->spec(), Reference::options(setup_.device, setup_.threads),
                   forcing_limits(text, ScoredText::windows_per_group), setup_.device_memory_bytes);
  if (!objection) return setup_.device;
  say_line("the reference is computed on the CPU, as the GPU cannot: " + *objection);
  return DeviceKind::cpu;
}

int EngineTarget::most_groups() {
  const ModelSpec& spec = checkpoint_->spec();
  const int most = extended_groups(reference_->text(), spec);
  if (reference_device_ == DeviceKind::cpu || setup_.device_memory_bytes == 0) return most;
  const std::int64_t needed = plan_memory(spec, Reference::options(reference_device_, setup_.threads),
                                          forcing_limits(reference_->text(), ScoredText::windows_per_group))
                                  .total() +
                              planned_bytes(scoring_engine_.get());
  if (needed > setup_.device_memory_bytes) return base_groups(reference_->text(), spec);
  if (needed + planned_bytes(workload_engine_.get()) > setup_.device_memory_bytes) workload_engine_.reset();
  return most;
}

}  // namespace moetune
