#include "tuner/targets/device_fault.h"

#include <stdexcept>

#include "kernels/buffer.h"
#include "kernels/read_memory.h"
#include "kernels/run.h"

namespace moetune {

#if MOETUNE_HAS_CUDA
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 30;
constexpr std::int64_t kMoreThanAnyCard = std::int64_t{1} << 50;
// Reading 1 GiB takes 0.2 to 1 ms on the cards there are.
constexpr int kReadsOfAMinute = 150000;

void read(Device& gpu, const void* data, std::int64_t bytes, int times) {
  const OwnedTensor sum(gpu, NumberType::i32, {1});
  for (int i = 0; i < times; ++i)
    moetune::run(gpu, ReadMemory{.data = data, .bytes = bytes, .sum = sum.view()});
  wait_for(gpu);
}

}  // namespace

std::vector<std::string_view> device_faults() {
  return {"device_fault", "device_out_of_memory", "device_hang"};
}

void fault_on_device(const std::string& how) {
  Device gpu{Cuda(0)};
  if (how == "device_out_of_memory") {
    const Buffer buffer(gpu, kMoreThanAnyCard);
  } else if (how == "device_hang") {
    const Buffer buffer(gpu, kBlock);
    read(gpu, buffer.data(), kBlock, kReadsOfAMinute);
  } else {
    read(gpu, reinterpret_cast<const void*>(std::uintptr_t{4096}), kBlock, 1);
  }
  throw std::runtime_error("the GPU did not fail: " + how);
}
#else
std::vector<std::string_view> device_faults() { return {}; }

void fault_on_device(const std::string& how) {
  throw std::runtime_error("this build has no GPU code: " + how);
}
#endif

}  // namespace moetune
