// What is searched and where it is measured: everything that tune and measure need and that differs between a
// real engine and the synthetic target of the tests. Start at engine_study().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/facts/engine_options.h"
#include "engine/facts/hardware_fingerprint.h"
#include "engine/facts/model_spec.h"
#include "engine/facts/workload.h"
#include "tuner/commands/common_options.h"
#include "tuner/search_space.h"

namespace moetune {

struct Study {
  ModelSpec model;
  Workload workload;
  HardwareFingerprint hardware;
  nlohmann::json conditions;         // whatever else changes a measurement; stands in request.json
  nlohmann::json worker_setup;       // for worker.cpp
  bool counts_energy = false;        // of the device that is measured
  bool made_up = false;              // synthetic target: no number of it says anything about a machine
  std::vector<std::string> remarks;  // said once, before anything is measured
  DeviceKind device = DeviceKind::cpu;
  std::string gpu_bus_id;             // of the GPU it runs on; empty on a CPU
  std::string why_cpu;                // although a GPU would have been taken; part of study_text()
  std::string unused_gpu;             // there is one, and it cannot be used: said first and last
  std::vector<std::string> warnings;  // said even where remarks are not wanted
  bool records_apart = false;  // where the time goes is recorded in processes of their own, after the search
  bool is_for_launch = false;  // see for_launch()

  // Why a configuration cannot run: in full, and in words that are the same for many, so that they can be
  // counted.
  std::function<std::optional<std::string>(const Configuration&)> objection;
  std::function<std::optional<std::string>(const Configuration&)> kind_of_objection;
};

// What must be said wherever the model is named: synthetic weights, folding, what is approximated. Empty:
// nothing.
std::string model_note(const ModelSpec& model);

// "tiny-moe, workload chat (128 + 32 tokens), cpu: Intel Xeon, 2 threads": what results belong to.
std::string study_text(const Study& study);

// Opens and checks the model, probes the machine and, unless --device cpu, its GPU. One study per workload of
// --workload; latency_seconds: most time for timing one configuration. Throws InputError.
std::vector<Study> engine_studies(const CommonOptions& common, double latency_seconds);

// worker_setup for processes that time configurations whose accuracy is known. seconds: most time for one.
nlohmann::json timing_setup(const Study& study, double seconds);

// The same for processes that record where the time goes.
nlohmann::json recording_setup(const Study& study);

// The same, its processes keeping in the folder what only the first one finds out.
Study with_folder(Study study, const std::string& folder);

// The same, a configuration being given up as soon as its first run is known to take longer than that.
Study with_run_limit(Study study, double seconds);

// The same with another service level than the workload's own: goodput is about it.
Study with_slo(Study study, const Slo& slo);

// The synthetic target; settings: JSON text for it.
Study synthetic_study(const CommonOptions& common, const std::string& settings);

}  // namespace moetune
