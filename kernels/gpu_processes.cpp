// As in gpu_power.cpp, the functions of NVML are declared here as its documentation has them.
#include "kernels/gpu_processes.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

namespace moetune {
namespace {

using Result = int;  // nvmlReturn_t
constexpr Result kSuccess = 0;
constexpr Result kInsufficientSize = 7;
constexpr unsigned long long kNotAvailable = ~0ULL;
constexpr int kTries = 4;  // processes may come while they are counted
struct NvmlDevice;

// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3.
struct ProcessInfo {
  unsigned id;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

template <class Function>
bool find(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

GpuProcesses gpu_processes(const std::string& bus_id, const std::string& library) {
  GpuProcesses answer;
  const std::unique_ptr<void, int (*)(void*)> nvml(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!nvml) {
    const char* reason = dlerror();
    answer.problem = "NVML cannot be opened: " + (reason != nullptr ? std::string(reason) : library);
    return answer;
  }
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*by_bus_id)(const char*, NvmlDevice**) = nullptr;
  Result (*running)(NvmlDevice*, unsigned* count, ProcessInfo*) = nullptr;
  if (!find(nvml.get(), init, "nvmlInit_v2") || !find(nvml.get(), shutdown, "nvmlShutdown") ||
      !find(nvml.get(), by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") ||
      !find(nvml.get(), running, "nvmlDeviceGetComputeRunningProcesses_v3")) {
    answer.problem = library + " is too old: it cannot name the processes of a GPU";
    return answer;
  }
  if (const Result result = init(); result != kSuccess) {
    answer.problem = "NVML cannot be used: error " + std::to_string(result);
    return answer;
  }
  NvmlDevice* device = nullptr;
  Result result = by_bus_id(bus_id.c_str(), &device);
  if (result != kSuccess) {
    answer.problem = "NVML does not know GPU " + bus_id + ": error " + std::to_string(result);
  } else {
    std::vector<ProcessInfo> infos;
    for (int tried = 0; tried < kTries; ++tried) {
      auto count = static_cast<unsigned>(infos.size());
      result = running(device, &count, infos.data());
      const bool has_room = result != kInsufficientSize;
      infos.resize(has_room ? std::min<std::size_t>(count, infos.size()) : count + 8);
      if (has_room) break;
    }
    if (result != kSuccess)
      answer.problem = "the processes of GPU " + bus_id + " cannot be read: error " + std::to_string(result);
    else
      for (const ProcessInfo& info : infos)
        answer.processes.push_back(
            {info.id, info.used_memory == kNotAvailable ? 0 : static_cast<std::int64_t>(info.used_memory)});
  }
  shutdown();
  return answer;
}

}  // namespace moetune
