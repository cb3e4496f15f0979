// The few functions of NVML that are used are declared here as its documentation has them: no header is
// needed, and a driver that lacks one of them costs what that one gives and no more.
#include "kernels/gpu_power.h"

#include <array>

#include "kernels/dynamic_library.h"

namespace moetune {
namespace {

using Result = int;  // nvmlReturn_t
constexpr Result kSuccess = 0;
struct NvmlDevice;  // nvmlDevice_t points to one

constexpr int kSmClock = 1;        // NVML_CLOCK_SM
constexpr int kThermalPolicy = 1;  // NVML_PERF_POLICY_THERMAL
struct ViolationTime {             // nvmlViolationTime_t, nanoseconds
  unsigned long long reference = 0;
  unsigned long long violation = 0;
};

}  // namespace

struct GpuPower::Library {
  DynamicLibrary nvml;
  NvmlDevice* device = nullptr;
  Result (*shutdown)() = nullptr;
  const char* (*error_text)(Result) = nullptr;
  Result (*violation_status)(NvmlDevice*, int policy, ViolationTime*) = nullptr;
  Result (*total_energy)(NvmlDevice*, unsigned long long* millijoules) = nullptr;
  Result (*power_usage)(NvmlDevice*, unsigned* milliwatts) = nullptr;
  Result (*power_limit)(NvmlDevice*, unsigned* milliwatts) = nullptr;
  Result (*clock)(NvmlDevice*, int kind, unsigned* mhz) = nullptr;
  Result (*most_clock)(NvmlDevice*, int kind, unsigned* mhz) = nullptr;

  explicit Library(const std::string& name) : nvml(name) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (shutdown != nullptr) shutdown();
  }

  template <class Function>
  bool find(Function*& function, const char* name) {
    return nvml.find(function, name);
  }
  std::string words(Result result) const {
    const char* text = error_text != nullptr ? error_text(result) : nullptr;
    return text != nullptr ? text : "error " + std::to_string(result);
  }
};

bool GpuPower::is_divided(Library& nvml) {
  Result (*mig_mode)(NvmlDevice*, unsigned* current, unsigned* pending) = nullptr;
  unsigned current = 0;
  unsigned pending = 0;
  // Cards that cannot be divided say so with an error.
  return nvml.find(mig_mode, "nvmlDeviceGetMigMode") &&
         mig_mode(nvml.device, &current, &pending) == kSuccess && current == 1;
}

GpuPower::GpuPower(const std::string& bus_id, const std::string& library)
    : library_(std::make_unique<Library>(library)) {
  Library& nvml = *library_;
  if (!nvml.nvml.is_open()) {
    problem_ = "NVML cannot be opened: " + nvml.nvml.problem();
    return;
  }
  Result (*init)() = nullptr;
  Result (*by_bus_id)(const char*, NvmlDevice**) = nullptr;
  Result (*version)(char*, unsigned) = nullptr;
  nvml.find(nvml.error_text, "nvmlErrorString");
  if (!nvml.find(init, "nvmlInit_v2") || !nvml.find(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2")) {
    problem_ = library + " is too old: it has no nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2";
    return;
  }
  if (const Result result = init(); result != kSuccess) {
    problem_ = "NVML cannot be used: " + nvml.words(result);
    return;
  }
  nvml.find(nvml.shutdown, "nvmlShutdown");  // only now: it has to pair with an nvmlInit that succeeded
  std::array<char, 96> text{};
  if (nvml.find(version, "nvmlSystemGetDriverVersion") && version(text.data(), text.size()) == kSuccess)
    driver_version_ = text.data();
  if (const Result result = by_bus_id(bus_id.c_str(), &nvml.device); result != kSuccess) {
    nvml.device = nullptr;
    problem_ = "NVML does not know GPU " + bus_id + ": " + nvml.words(result);
    return;
  }
  nvml.find(nvml.power_usage, "nvmlDeviceGetPowerUsage");
  nvml.find(nvml.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  nvml.find(nvml.clock, "nvmlDeviceGetClockInfo");
  nvml.find(nvml.most_clock, "nvmlDeviceGetMaxClockInfo");
  if (is_divided(nvml)) {
    problem_ = "the GPU is divided (MIG): its energy counter counts for all of its parts";
    return;
  }
  nvml.find(nvml.violation_status, "nvmlDeviceGetViolationStatus");
  unsigned long long millijoules = 0;
  if (!nvml.find(nvml.total_energy, "nvmlDeviceGetTotalEnergyConsumption")) {
    problem_ = library + " has no energy counter (nvmlDeviceGetTotalEnergyConsumption)";
  } else if (const Result result = nvml.total_energy(nvml.device, &millijoules); result != kSuccess) {
    nvml.total_energy = nullptr;
    problem_ = "the GPU has no energy counter: " + nvml.words(result);
  }
}

GpuPower::~GpuPower() = default;
GpuPower::GpuPower(GpuPower&&) noexcept = default;
GpuPower& GpuPower::operator=(GpuPower&&) noexcept = default;

std::optional<double> GpuPower::joules() const {
  unsigned long long millijoules = 0;
  if (library_->total_energy == nullptr || library_->total_energy(library_->device, &millijoules) != kSuccess)
    return std::nullopt;
  return static_cast<double>(millijoules) / 1e3;
}

std::optional<double> GpuPower::watts() const {
  unsigned milliwatts = 0;
  if (library_->power_usage == nullptr || library_->power_usage(library_->device, &milliwatts) != kSuccess)
    return std::nullopt;
  return static_cast<double>(milliwatts) / 1e3;
}

std::optional<std::int64_t> GpuPower::slowed_by_heat_ns() const {
  ViolationTime time;
  if (library_->violation_status == nullptr ||
      library_->violation_status(library_->device, kThermalPolicy, &time) != kSuccess)
    return std::nullopt;
  return static_cast<std::int64_t>(time.violation);
}

std::optional<double> GpuPower::limit_watts() const {
  unsigned milliwatts = 0;
  if (library_->power_limit == nullptr || library_->power_limit(library_->device, &milliwatts) != kSuccess)
    return std::nullopt;
  return static_cast<double>(milliwatts) / 1e3;
}

CardReading GpuPower::look() const {
  const auto clock = [&](auto* function) -> std::optional<int> {
    unsigned mhz = 0;
    if (function == nullptr || function(library_->device, kSmClock, &mhz) != kSuccess) return std::nullopt;
    return static_cast<int>(mhz);
  };
  return {.watts = watts(), .sm_mhz = clock(library_->clock), .most_sm_mhz = clock(library_->most_clock)};
}

const std::string& GpuPower::driver_version() const { return driver_version_; }
const std::string& GpuPower::problem() const { return problem_; }

}  // namespace moetune
