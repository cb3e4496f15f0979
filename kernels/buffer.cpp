#include "kernels/buffer.h"

#include <sys/mman.h>

#include <cassert>
#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/op_in_flight.h"

#if MOETUNE_HAS_CUDA
#include "kernels/cuda_memory.h"
#endif

namespace moetune {
namespace {
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::byte* allocate_aligned(std::size_t bytes, std::size_t alignment) {
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{alignment}));
}

// Weights are read all over: with 4 KiB pages most reads would first wait for the address to be looked up.
std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  std::shared_ptr<std::byte> memory(allocate_aligned(bytes, alignment), [alignment](std::byte* data) {
    ::operator delete(data, std::align_val_t{alignment});
  });
  if (alignment == kHugePage)
    madvise(memory.get(), bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // only a wish
  return memory;
}

std::int64_t bytes_of(NumberType type, std::initializer_list<std::int64_t> shape) {
  std::int64_t bytes = element_bytes(type);
  for (const std::int64_t length : shape)
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes))
      throw std::invalid_argument("a tensor's shape is negative or larger than memory can be");
  return bytes;
}

void copy_in(Cpu&, const void* host, void* on_device, std::int64_t bytes) {
  std::memcpy(on_device, host, static_cast<std::size_t>(bytes));
}
void copy_out(Cpu&, const void* on_device, void* host, std::int64_t bytes) {
  std::memcpy(host, on_device, static_cast<std::size_t>(bytes));
}

std::shared_ptr<std::byte> allocate(Cpu&, std::int64_t bytes) {
  return allocate(static_cast<std::size_t>(bytes > 0 ? bytes : 1));
}

#if MOETUNE_HAS_CUDA
void copy_in(Cuda& cuda, const void* host, void* on_device, std::int64_t bytes) {
  cuda_copy_to_device(cuda, host, on_device, bytes);
}
void copy_out(Cuda& cuda, const void* on_device, void* host, std::int64_t bytes) {
  cuda_copy_to_host(cuda, on_device, host, bytes);
}
std::shared_ptr<std::byte> allocate(Cuda& cuda, std::int64_t bytes) { return cuda_allocate(cuda, bytes); }
std::shared_ptr<std::byte> allocate_shared(Cuda& cuda, std::int64_t bytes) {
  return cuda_allocate_shared(cuda, bytes);
}
void wait(Cuda& cuda) { cuda.synchronize(); }
#endif
std::shared_ptr<std::byte> allocate_shared(Cpu& cpu, std::int64_t bytes) { return allocate(cpu, bytes); }
void wait(Cpu&) {}
}  // namespace

// A size of 0 still gives an address, so that an empty tensor is not taken for an absent one.
Buffer::Buffer(Device& device, std::int64_t bytes) : bytes_(bytes) {
  assert(bytes >= 0);
  std::visit([&](auto& on) { data_ = allocate(on, bytes); }, device);
}

OwnedTensor::OwnedTensor(Device& device, NumberType type, std::initializer_list<std::int64_t> shape)
    : buffer_(device, bytes_of(type, shape)), view_(buffer_.data(), type, shape) {}

SharedBuffer SharedBuffer::unwritten(Device& device, std::int64_t bytes) {
  SharedBuffer made;
  made.bytes_ = bytes;
  std::visit([&](auto& on) { made.data_ = allocate_shared(on, bytes); }, device);
  return made;
}

SharedBuffer::SharedBuffer(Device& device, std::int64_t bytes) : SharedBuffer(unwritten(device, bytes)) {
  std::memset(data_.get(), 0, static_cast<std::size_t>(bytes));
}

void wait_for(Device& device) {
  const OpInFlight in_flight("waiting for the device");
  std::visit([](auto& on) { wait(on); }, device);
}

bool shares_host_memory(const Device& device) { return std::holds_alternative<Cpu>(device); }

void copy_to_device(Device& device, const void* host, void* on_device, std::int64_t bytes) {
  if (bytes == 0) return;
  std::visit([&](auto& on) { copy_in(on, host, on_device, bytes); }, device);
}

void copy_to_host(Device& device, const void* on_device, void* host, std::int64_t bytes) {
  if (bytes == 0) return;
  const OpInFlight in_flight("waiting for a copy to the host");
  std::visit([&](auto& on) { copy_out(on, on_device, host, bytes); }, device);
}

}  // namespace moetune
