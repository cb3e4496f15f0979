// How an engine target is asked for across processes: its setup as JSON and back.
#include <cstdint>

#include "engine/facts/error.h"
#include "tuner/json_facts.h"
#include "tuner/json_fields.h"
#include "tuner/targets/engine_target.h"

namespace moetune {
namespace {

DeviceKind device_from(const JsonFields& fields) {
  const std::string name = fields.text("device");
  if (name == "cpu") return DeviceKind::cpu;
  if (name == "cuda") return DeviceKind::cuda;
  throw InputError(fields.place("device"), "'" + name + "'", "cpu, cuda");
}

}  // namespace

nlohmann::json to_json_value(const EngineTargetSetup& setup) {
  nlohmann::json object{{"model", setup.model_directory},
                        {"workload", to_json_value(setup.workload)},
                        {"calibration", setup.calibration_file},
                        {"device", setup.device == DeviceKind::cuda ? "cuda" : "cpu"},
                        {"device_name", setup.device_name},
                        {"threads", setup.threads},
                        {"device_memory_bytes", setup.device_memory_bytes},
                        {"latency_seconds", setup.latency_seconds},
                        {"longest_run_seconds", setup.longest_run_seconds},
                        {"usd_per_hour", setup.usd_per_hour},
                        {"study_folder", setup.study_folder},
                        {"timing_only", setup.timing_only},
                        {"recording_only", setup.recording_only},
                        {"injected_delay_ms", setup.injected_delay_ms}};
  if (!setup.samples_out.empty()) object["samples_out"] = setup.samples_out;
  return object;
}

EngineTargetSetup engine_target_setup_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  EngineTargetSetup setup;
  setup.model_directory = fields.text("model");
  setup.workload = workload_from_json(fields.object("workload"), fields.place("workload"));
  setup.calibration_file = fields.text("calibration");
  setup.device = device_from(fields);
  setup.device_name = fields.text("device_name");
  setup.threads = static_cast<int>(fields.integer("threads", 0, 4096));
  setup.device_memory_bytes = fields.integer("device_memory_bytes", 0, std::int64_t{1} << 62);
  setup.latency_seconds = fields.number("latency_seconds");
  setup.longest_run_seconds = fields.number("longest_run_seconds");
  setup.usd_per_hour = fields.number("usd_per_hour");
  setup.study_folder = fields.text("study_folder");
  setup.samples_out = fields.text_or("samples_out", "");
  setup.timing_only = fields.flag("timing_only");
  setup.recording_only = fields.flag("recording_only");
  setup.injected_delay_ms = fields.number("injected_delay_ms");
  return setup;
}

}  // namespace moetune
