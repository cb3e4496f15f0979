#include "kernels/device_memory.h"

#if MOETUNE_HAS_CUDA
#include "kernels/cuda_memory.h"
#endif

namespace moetune {
namespace {

void reserve(Cpu&, std::int64_t) {}
std::int64_t free_bytes(Cpu&) { return 0; }
std::int64_t waits(Cpu&) { return 0; }
#if MOETUNE_HAS_CUDA
void reserve(Cuda& cuda, std::int64_t bytes) { cuda_reserve_scratch(cuda, bytes); }
std::int64_t free_bytes(Cuda& cuda) { return cuda_free_bytes(cuda); }
std::int64_t waits(Cuda&) { return cuda_host_waits(); }
#endif

}  // namespace

void reserve_scratch(Device& device, std::int64_t bytes) {
  std::visit([&](auto& on) { reserve(on, bytes); }, device);
}
std::int64_t host_waits(Device& device) {
  return std::visit([](auto& on) { return waits(on); }, device);
}
std::int64_t free_device_bytes(Device& device) {
  return std::visit([](auto& on) { return free_bytes(on); }, device);
}

}  // namespace moetune
