// The target that measures the engine: configuration -> options through the knob table -> Engine -> metrics.
// Lives in the worker process. Start at EngineTarget::measure().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/engine.h"
#include "engine/facts/workload.h"
#include "engine/tokenizer.h"
#include "kernels/gpu_power.h"
#include "tuner/target.h"
#include "tuner/targets/known_output.h"
#include "tuner/targets/reference.h"
#include "tuner/targets/throttle.h"

namespace moetune {

// Everything a worker has to know; travels as JSON from the tuner.
struct EngineTargetSetup {
  std::string model_directory;  // or a preset with its overrides
  Workload workload;
  std::string calibration_file;  // empty: the model's own
  DeviceKind device = DeviceKind::cpu;
  std::string device_name;               // the GPU's: another one may round differently; empty on a CPU
  int threads = 0;                       // 0: all this process may use
  std::int64_t device_memory_bytes = 0;  // to stay within
  double latency_seconds = 3.0;          // most time for timing one configuration
  double longest_run_seconds = 0.0;      // one whose first run takes longer is timed_out at once; 0: none is
  double usd_per_hour = 0.0;             // 0: usd_per_mtok is not known
  std::string
      study_folder;         // keeps what is found out once for all processes of a study; empty: there is none
  std::string samples_out;  // file that exists and gets the raw times of every run; empty: none
  bool timing_only = false;        // no accuracy: of a configuration whose accuracy another process knows
  bool recording_only = false;     // beside timing_only: where the time goes (tax_...), and nothing else
  double injected_delay_ms = 0.0;  // for tests: waited for after every layer's routing while timing
};
nlohmann::json to_json_value(const EngineTargetSetup& setup);
EngineTargetSetup engine_target_setup_from_json(const nlohmann::json& object, const std::string& where);

// Options a configuration stands for on that device. Throws InputError for an unknown knob or value.
EngineOptions options_of(const Configuration& configuration, DeviceKind device, int threads);

class EngineTarget : public Target {
 public:
  using ProgressWords = std::function<void(const std::string&)>;

  // Opens the model and, where accuracy is measured, brings the reference up to base_positions(). Throws
  // InputError.
  EngineTarget(EngineTargetSetup setup, const ProgressWords& progress);

  TargetResult measure(const Configuration& configuration, std::uint64_t seed,
                       const ProgressWords& progress) override;
  // Of the same model another workload, or another time for it: weights, reference and known accuracies stay.
  bool take_over(const nlohmann::json& setup) override;

 private:
  const KnownOutput& output_of(const EngineOptions& options, const ProgressWords& progress);
  Engine& workload_engine(const EngineOptions& options, const ProgressWords& progress);
  std::int64_t planned_bytes(const Engine* engine) const;  // 0: there is none
  bool fits_beside(const Engine* other, const EngineOptions& options, const EngineLimits& limits) const;
  DeviceKind reference_device(const ScoredText& text) const;
  // Groups of windows that may be scored: more than the base only while a third engine, the reference's, has
  // room.
  int most_groups();
  TargetResult measure_options(const EngineOptions& options, const std::string& name,
                               const ProgressWords& progress);
  // Of a workload with Poisson arrivals: found out with the default configuration, by the first process of a
  // study. Kept in its folder. Where the default is too slow for that, with the configuration at hand:
  // measured, its key as name.
  void settle_arrivals(const EngineOptions& measured, const std::string& name, const ProgressWords& progress);
  double default_arrival_rate(const ProgressWords& progress);
  double run_limit() const;
  ThrottleCounter throttle_counter();
  TargetResult recorded(Engine& engine, const ProgressWords& progress);
  Metrics timed_metrics(Engine& engine, const ProgressWords& progress);

  EngineTargetSetup setup_;
  bool found_arrivals_ = false;  // the rate was measured, not given
  std::string arrivals_note_;    // whose it is, where it is not the default's
  std::shared_ptr<const Checkpoint> checkpoint_;
  TokenSource text_;
  std::optional<GpuPower> power_;  // of the GPU that is measured
  double load_seconds_ = 0.0;  // of the configuration that is measured: its weights were loaded and converted
  std::optional<GpuPower> heat_;          // of the same; asked in every process, unlike its energy
  std::unique_ptr<Reference> reference_;  // empty: timing_only
  DeviceKind reference_device_ = DeviceKind::cpu;
  std::map<std::string, KnownOutput> outputs_;  // by output_key()
  std::unique_ptr<Engine> scoring_engine_;  // kept: the next configuration may differ in a cheap knob only
  std::unique_ptr<Engine> workload_engine_;
};

}  // namespace moetune
