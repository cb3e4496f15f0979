// Owned memory of a device. Start at Buffer; Tensor views into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Aligned to 256 bytes, contents undefined. Throws std::bad_alloc when the device has no room.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, std::int64_t bytes);

  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<std::byte> data_;
  std::int64_t bytes_ = 0;
};

// A buffer that is exactly one contiguous tensor.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(Device& device, NumberType type, std::initializer_list<std::int64_t> shape);
  const Tensor& view() const { return view_; }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  Tensor view_;
};

// Memory that ops write and the host reads at the same address, without a copy: small logs; and the other way
// round, what ops read over the link. Zeroed. The host sees what an op wrote once the device has been waited
// for.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(Device& device, std::int64_t bytes);
  // Not zeroed: for memory of gigabytes.
  static SharedBuffer unwritten(Device& device, std::int64_t bytes);
  // Does nobody hold a copy of this handle?
  bool is_sole_owner() const { return data_.use_count() == 1; }
  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<std::byte> data_;
  std::int64_t bytes_ = 0;
};

// Until everything enqueued on the device is done.
void wait_for(Device& device);

// Does the host read the device's memory as it is? Then looking at a result costs no wait.
bool shares_host_memory(const Device& device);

// Copies between host memory and a device; the host may reuse its memory when they return. to_host waits for
// the device.
void copy_to_device(Device& device, const void* host, void* on_device, std::int64_t bytes);
void copy_to_host(Device& device, const void* on_device, void* host, std::int64_t bytes);

}  // namespace moetune
