// Where there is no CUDA or no header of CUPTI; else device_trace.cu.
#include "kernels/device_trace.h"

#ifndef MOETUNE_HAS_CUPTI_HEADER
#define MOETUNE_HAS_CUPTI_HEADER 0
#endif

#if !MOETUNE_HAS_CUDA || !MOETUNE_HAS_CUPTI_HEADER

#include <stdexcept>

namespace moetune {

struct DeviceTrace::State {
  TraceLabels labels;
};

std::string DeviceTrace::why_not() {
  return "this build records no kernels: it was made without a CUDA toolkit that has CUPTI's header";
}
DeviceTrace::DeviceTrace() { throw std::runtime_error(why_not()); }
DeviceTrace::~DeviceTrace() = default;
TraceLabels& DeviceTrace::labels() { return state_->labels; }
void DeviceTrace::start() {}
std::vector<DeviceRecord> DeviceTrace::finish() { return {}; }
std::int64_t DeviceTrace::now_ns() { return 0; }

}  // namespace moetune

#endif
