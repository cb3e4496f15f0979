// Which GPU is here? Asked of a child process (`moetune gpu-probe`), because whoever looks gets a CUDA
// context that costs memory on the card and cannot be given back. Start at ask_for_gpu(); choose_device()
// decides by the answer.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/engine_options.h"
#include "engine/facts/hardware_fingerprint.h"
#include "kernels/gpu_facts.h"

namespace moetune {

struct GpuReport {
  GpuFacts facts;
  std::string bus_id;              // PCI address, by which NVML and the lock know it
  std::string driver_version;      // "580.95.05"; empty: not known
  double idle_watts = 0.0;         // before anything ran; 0: not known
  std::string idle_problem;        // why that is not known; empty: it is
  double power_limit_watts = 0.0;  // 0: not known
  std::string power_problem;       // why energy cannot be read; empty: it can
  std::string cublas_problem;      // why cuBLAS cannot be used; empty: it can
};

struct GpuAnswer {
  std::optional<GpuReport> gpu;
  std::string problem;    // why there is none, in words
  std::string busy = {};  // bus id of a GPU that was left alone, because another moetune measures on it
};

nlohmann::json to_json_value(const GpuAnswer& answer);
GpuAnswer gpu_answer_from_json(const nlohmann::json& object, const std::string& where);  // throws InputError

// Never throws: a probe that fails is an answer. Without GPU code in this build nothing is started. What the
// plan of a model's memory asks about the GPU is answered by it from here on (kernels/dense_choice.h). A GPU
// is this process's from here on until it ends: where another moetune measures on it, says so and waits.
GpuAnswer ask_for_gpu();
GpuAnswer answer_of(const std::vector<std::string>& command);  // the same of any program

// Where models run, and why not on a GPU when `auto` had to take the CPU.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  std::optional<GpuReport> gpu;  // with kind cuda
  std::string why_cpu;           // empty: nobody asked for a GPU
};

// asked: auto, cpu or cuda. Throws InputError when cuda is asked for and there is none.
DeviceChoice choose_device(const std::string& asked, const std::function<GpuAnswer()>& ask);

// Of the card's memory, what a plan may fill: the driver, the context and small buffers need the rest. A
// fixed share of the card, so that a resumed run plans as before; less where other programs hold more than
// that.
std::int64_t plannable_bytes(const GpuFacts& gpu);
// Says so where other programs hold that much; otherwise empty.
std::string shared_memory_warning(const GpuFacts& gpu);

// Turns the fingerprint of the machine into that of its GPU.
void describe_gpu(HardwareFingerprint& hardware, const GpuReport& gpu);

}  // namespace moetune
