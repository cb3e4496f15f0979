// The host does it: only loading a checkpoint needs it, and that has the numbers on the host anyway.
#include <vector>

#include "kernels/cuda_memory.h"
#include "kernels/quantize.h"

namespace moetune {
namespace {

// The rows of a tensor that may be strided, as host memory of the same strides.
std::vector<std::byte> on_host(Cuda& cuda, const Tensor& tensor) {
  const std::int64_t elements = (tensor.dim(0) - 1) * tensor.stride(0) + tensor.dim(1);
  std::vector<std::byte> host(static_cast<std::size_t>(elements * element_bytes(tensor.type())));
  cuda_copy_to_host(cuda, tensor.data(), host.data(), static_cast<std::int64_t>(host.size()));
  return host;
}

}  // namespace

void run(Cuda& cuda, const Quantize& op) {
  if (op.x.elements() == 0) return;
  std::vector<std::byte> x = on_host(cuda, op.x);
  std::vector<std::byte> y(static_cast<std::size_t>(op.layout.bytes));
  Cpu cpu;
  run(cpu, Quantize{.x = op.x.moved_to(x.data()), .y = y.data(), .layout = op.layout});
  cuda_copy_to_device(cuda, y.data(), op.y, op.layout.bytes);
}

void run(Cuda& cuda, const Dequantize& op) {
  if (op.y.elements() == 0) return;
  std::vector<std::byte> x(static_cast<std::size_t>(op.x.layout.bytes));
  cuda_copy_to_host(cuda, op.x.data, x.data(), op.x.layout.bytes);
  std::vector<std::byte> y = on_host(cuda, op.y);
  Cpu cpu;
  run(cpu, Dequantize{.x = {x.data(), op.x.layout}, .y = op.y.moved_to(y.data())});
  cuda_copy_to_device(cuda, y.data(), op.y.data(), static_cast<std::int64_t>(y.size()));
}

}  // namespace moetune
