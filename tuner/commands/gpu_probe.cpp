#include "tuner/commands/gpu_probe.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "kernels/dense_choice.h"
#include "kernels/gpu_health.h"
#include "kernels/gpu_power.h"
#include "kernels/gpu_rest.h"
#include "moetune/build_info.h"
#include "tuner/child_output.h"
#include "tuner/commands/command.h"
#include "tuner/commands/options.h"
#include "tuner/device_lock.h"
#include "tuner/doctor/bus_id.h"
#include "tuner/json_fields.h"
#include "tuner/metric_facts.h"

namespace moetune {
namespace {

constexpr std::chrono::seconds patience(
    120);  // a machine of eight GPUs without persistence mode wakes up slowly
constexpr std::chrono::milliseconds rest_step(100);  // as often as the driver's average is new
constexpr std::chrono::milliseconds rest_patience(4000);
constexpr std::int64_t most_bytes = std::int64_t{1} << 50;
constexpr double most_gb_per_s = 1e6;
constexpr auto lock_holder = "moetune";
constexpr auto build_problem = "this build has no GPU code: it was made without a CUDA toolkit (nvcc)";

#if MOETUNE_HAS_CUDA
// By short bus id. To be called before the first call of CUDA, which wakes all cards up; NVML does not.
std::map<std::string, RestingPower> power_of_resting_gpus() {
  std::vector<std::string> bus_ids;
  std::vector<std::function<CardReading()>> cards;
  for (const GpuHealth& gpu : look_at_gpus().gpus) {
    bus_ids.push_back(short_bus_id(gpu.bus_id));
    cards.push_back([power = std::make_shared<GpuPower>(gpu.bus_id)] { return power->look(); });
  }
  const std::vector<RestingPower> found = power_at_rest(
      cards, [](std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }, rest_step,
      rest_patience);
  std::map<std::string, RestingPower> resting;
  for (std::size_t i = 0; i < found.size(); ++i) resting[bus_ids[i]] = found[i];
  return resting;
}
#endif

// What runs in the child.
GpuAnswer look_for_gpu([[maybe_unused]] bool is_ours) {
#if MOETUNE_HAS_CUDA
  try {
    const std::map<std::string, RestingPower> resting = power_of_resting_gpus();
    GpuReport report;
    report.bus_id = gpu_bus_id(0);
    std::optional<DeviceLock> lock;
    if (!is_ours && !(lock = DeviceLock::try_take(report.bus_id, lock_holder)))
      return {.gpu = {}, .problem = "another moetune measures on it", .busy = report.bus_id};
    const GpuPower power(report.bus_id);
    const auto at_rest = resting.find(short_bus_id(report.bus_id));
    report.idle_problem = at_rest == resting.end() ? power.problem() : at_rest->second.problem;
    if (at_rest != resting.end()) report.idle_watts = at_rest->second.watts.value_or(0.0);
    report.power_limit_watts = power.limit_watts().value_or(0.0);
    report.driver_version = power.driver_version();
    report.power_problem = power.problem();
    report.facts = measure_gpu(0);
    report.cublas_problem = why_no_cublas();
    return {.gpu = report, .problem = ""};
  } catch (const std::bad_alloc&) {
    return {.gpu = {}, .problem = "the GPU has no memory left for a probe of its speed"};
  } catch (const std::exception& error) {
    return {.gpu = {}, .problem = error.what()};
  }
#else
  return {.gpu = {}, .problem = build_problem};
#endif
}

std::int64_t reserved_bytes(const GpuFacts& gpu) {
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  return std::clamp(gpu.memory_bytes / 32, 512 * mib, 1024 * mib);
}

double rate(const JsonFields& fields, const char* name) {
  const double value = fields.number(name);
  if (value <= 0.0 || value > most_gb_per_s)
    throw InputError(fields.place(name), shown(fields.required(name)), "GB/s, above 0");
  return value;
}

GpuReport report_from_json(const JsonFields& fields) {
  fields.only({"name", "bus_id", "count", "memory_bytes", "free_bytes", "compute_capability",
               "multiprocessors", "driver", "driver_version", "runtime", "read_gb_per_s", "link_gb_per_s",
               "pageable_gb_per_s", "idle_watts", "idle_problem", "power_limit_watts", "power_problem",
               "cublas_problem"});
  GpuReport report;
  GpuFacts& facts = report.facts;
  facts.name = fields.text("name");
  report.bus_id = fields.text("bus_id");
  facts.count = static_cast<int>(fields.integer("count", 1, 1024));
  facts.memory_bytes = fields.integer("memory_bytes", 1, most_bytes);
  facts.free_bytes = fields.integer("free_bytes", 0, facts.memory_bytes);
  facts.compute_capability = fields.text("compute_capability");
  facts.multiprocessors = static_cast<int>(fields.integer("multiprocessors", 1, 1 << 16));
  facts.driver = fields.text("driver");
  facts.runtime = fields.text("runtime");
  facts.read_gb_per_s = rate(fields, "read_gb_per_s");
  facts.link_gb_per_s = rate(fields, "link_gb_per_s");
  facts.pageable_gb_per_s = rate(fields, "pageable_gb_per_s");
  report.driver_version = fields.text("driver_version");
  report.idle_watts = fields.number("idle_watts");
  report.idle_problem = fields.text("idle_problem");
  report.power_limit_watts = fields.number("power_limit_watts");
  report.power_problem = fields.text("power_problem");
  report.cublas_problem = fields.text("cublas_problem");
  return report;
}

DenseGpu dense_gpu(const GpuReport& gpu) {
  int major = 0;
  const std::string& text = gpu.facts.compute_capability;
  std::from_chars(text.data(), text.data() + text.size(), major);
  return {.compute_major = major, .why_no_cublas = gpu.cublas_problem};
}

// Until this process ends: whatever it starts from now on has the GPU to itself.
void hold_gpu(const std::string& bus_id) {
  static std::optional<DeviceLock> lock;
  if (lock) return;
  lock = wait_for_device(
      bus_id, lock_holder,
      [&](const std::string& other) {
        fmt::print(stderr, "moetune: GPU {} is in use by {}: waiting until it ends (Ctrl-C gives up)\n",
                   bus_id, other);
      },
      [] { return false; });
}

}  // namespace

nlohmann::json to_json_value(const GpuAnswer& answer) {
  if (!answer.busy.empty()) return {{"busy", answer.busy}, {"problem", answer.problem}};
  if (!answer.gpu) return {{"problem", answer.problem}};
  const GpuFacts& facts = answer.gpu->facts;
  return {{"gpu",
           {{"name", facts.name},
            {"bus_id", answer.gpu->bus_id},
            {"count", facts.count},
            {"memory_bytes", facts.memory_bytes},
            {"free_bytes", facts.free_bytes},
            {"compute_capability", facts.compute_capability},
            {"multiprocessors", facts.multiprocessors},
            {"driver", facts.driver},
            {"driver_version", answer.gpu->driver_version},
            {"runtime", facts.runtime},
            {"read_gb_per_s", facts.read_gb_per_s},
            {"link_gb_per_s", facts.link_gb_per_s},
            {"pageable_gb_per_s", facts.pageable_gb_per_s},
            {"idle_watts", answer.gpu->idle_watts},
            {"idle_problem", answer.gpu->idle_problem},
            {"power_limit_watts", answer.gpu->power_limit_watts},
            {"power_problem", answer.gpu->power_problem},
            {"cublas_problem", answer.gpu->cublas_problem}}}};
}

GpuAnswer gpu_answer_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"gpu", "problem", "busy"});
  if (!fields.has("gpu"))
    return {.gpu = {}, .problem = fields.text("problem"), .busy = fields.text_or("busy", "")};
  return {.gpu = report_from_json(JsonFields(fields.object("gpu"), fields.place("gpu"))), .problem = ""};
}

GpuAnswer ask_for_gpu() {
  if (!build_info::has_cuda) return {.gpu = {}, .problem = build_problem};
  GpuAnswer answer = answer_of({"/proc/self/exe", "gpu-probe"});
  try {
    if (!answer.busy.empty()) {
      hold_gpu(answer.busy);
      answer = answer_of({"/proc/self/exe", "gpu-probe", "--ours"});
    } else if (answer.gpu) {
      hold_gpu(answer.gpu->bus_id);
    }
  } catch (const std::exception& error) {
    return {.gpu = {}, .problem = error.what()};
  }
  if (answer.gpu) tell_dense_gpu(dense_gpu(*answer.gpu));
  return answer;
}

GpuAnswer answer_of(const std::vector<std::string>& command) {
  try {
    const ChildOutput output = output_of(command, patience);
    if (!output.problem.empty())
      return {.gpu = {}, .problem = "the process that looked at the GPU " + output.problem};
    return gpu_answer_from_json(parse_json(output.text, "GPU probe"), "GPU probe");
  } catch (const std::exception& error) {
    return {.gpu = {}, .problem = fmt::format("the GPU could not be looked at: {}", error.what())};
  }
}

DeviceChoice choose_device(const std::string& asked, const std::function<GpuAnswer()>& ask) {
  if (asked == "cpu") return {};
  const GpuAnswer answer = ask();
  if (answer.gpu) return {.kind = DeviceKind::cuda, .gpu = answer.gpu, .why_cpu = ""};
  if (asked == "cuda") throw InputError("--device", "'cuda': " + answer.problem, "auto, cpu");
  return {.kind = DeviceKind::cpu, .gpu = {}, .why_cpu = answer.problem};
}

std::int64_t plannable_bytes(const GpuFacts& gpu) {
  return std::max<std::int64_t>(std::min(gpu.memory_bytes - reserved_bytes(gpu), gpu.free_bytes), 0);
}

std::string shared_memory_warning(const GpuFacts& gpu) {
  if (gpu.free_bytes >= gpu.memory_bytes - reserved_bytes(gpu)) return {};
  return fmt::format("other programs hold memory of the GPU: plans stay within the {} of {} that are free",
                     value_text("device_bytes", static_cast<double>(gpu.free_bytes)),
                     value_text("device_bytes", static_cast<double>(gpu.memory_bytes)));
}

void describe_gpu(HardwareFingerprint& hardware, const GpuReport& gpu) {
  const GpuFacts& facts = gpu.facts;
  hardware.device = facts.name;
  hardware.gpu_count = facts.count;
  hardware.device_bytes = plannable_bytes(facts);
  hardware.memory_gb_per_s = facts.read_gb_per_s;
  hardware.memory_rate_spread = 0.0;  // that of the host's memory is another matter
  hardware.link_gb_per_s = facts.link_gb_per_s;
  hardware.driver = gpu.driver_version.empty()
                        ? "CUDA " + facts.driver
                        : fmt::format("{} (CUDA {})", gpu.driver_version, facts.driver);
  hardware.compute_capability = facts.compute_capability;
  hardware.multiprocessors = facts.multiprocessors;
  hardware.idle_watts = gpu.idle_watts;
  hardware.power_limit_watts = gpu.power_limit_watts;
}

Command add_gpu_probe_command(CLI::App& program) {
  CLI::App& command = add_subcommand(program, "gpu-probe", "", "", "");
  auto is_ours = std::make_shared<bool>(false);
  add_flag(command, "--ours", *is_ours, "Whoever asks holds its lock");
  return {&command, [is_ours] {
            fmt::print(stdout, "{}\n", to_json_value(look_for_gpu(*is_ours)).dump());
            return ExitCode::done;
          }};
}

}  // namespace moetune
