#include "tuner/targets/device_fault.h"

#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <vector>

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

void fill(Device& gpu) {
  for (std::vector<Buffer> blocks;;) blocks.emplace_back(gpu, kBlock);
}

// The copies take a second or more; the signal comes before the last of them is over.
void die_in_copy(Device& gpu) {
  constexpr int kCopies = 64;
  const SharedBuffer pinned = SharedBuffer::unwritten(gpu, kBlock);
  const Buffer buffer(gpu, kBlock);
  for (int i = 0; i < kCopies; ++i) copy_to_device(gpu, pinned.data(), buffer.data(), kBlock);
  ::raise(SIGKILL);
}

void copy_there_and_back(Device& gpu) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const SharedBuffer pinned(gpu, kBytes);
  pinned.data()[kBytes - 1] = std::byte{42};
  const Buffer buffer(gpu, kBytes);
  copy_to_device(gpu, pinned.data(), buffer.data(), kBytes);
  std::byte last{};
  copy_to_host(gpu, buffer.data() + kBytes - 1, &last, 1);
  if (last != std::byte{42}) throw std::runtime_error("a copy did not arrive");
}

}  // namespace

std::vector<std::string_view> device_faults() {
  return {"device_fault",           "device_out_of_memory",  "device_filled", "device_hang",
          "device_pinning_refused", "device_killed_in_copy", "device_works"};
}

void fault_on_device(const std::string& how) {
  Device gpu{Cuda(0)};
  if (how == "device_works") return copy_there_and_back(gpu);
  if (how == "device_filled") fill(gpu);
  if (how == "device_killed_in_copy") die_in_copy(gpu);
  if (how == "device_pinning_refused") {
    SharedBuffer::unwritten(gpu, kMoreThanAnyCard);
  } else if (how == "device_out_of_memory") {
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
