// A GPU under test, and tensors carried there and back. Tests that need one are skipped, loudly, where there
// is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/kernel_path.h"
#include "kernels/tensor.h"
#include "kernels/tile_packing.h"
#include "kernels/weight_matrix.h"
#include "tests/support/relative_error.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {

// Every type that has tiles.
inline constexpr NumberType kTileTypes[] = {NumberType::bf16, NumberType::f16,  NumberType::fp8,
                                            NumberType::int8, NumberType::int4, NumberType::int4_g32,
                                            NumberType::mxfp4};

// What $MOETUNE_TEST_KERNELS asks of every op: "portable": the kernels of GPUs before Hopper. Tests that
// compare paths choose them all the same.
inline KernelPath path_under_test() {
  const char* const asked = std::getenv("MOETUNE_TEST_KERNELS");
  if (asked != nullptr && std::string(asked) != "portable")
    throw std::invalid_argument(std::string("MOETUNE_TEST_KERNELS=") + asked +
                                ": accepted: portable, or unset");
  return {.is_portable = asked != nullptr};
}

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_kernel_path(path_under_test());
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    gpu_ = std::make_unique<Device>(Cuda(0));
  }

  Device& gpu() { return *gpu_; }

  // The same tensor, contiguous, on the GPU.
  Tensor there(const Tensor& host) {
    std::int64_t bytes = host.elements() * element_bytes(host.type());
    buffers_.emplace_back(*gpu_, bytes);
    copy_to_device(*gpu_, host.data(), buffers_.back().data(), bytes);
    Tensor moved = host;
    return moved.moved_to(buffers_.back().data());
  }

  WeightMatrix there(const WeightMatrix& host, Packing packing) {
    const MatrixLayout layout = MatrixLayout::of(host.layout.type, host.layout.out, host.layout.in, packing);
    buffers_.emplace_back(*gpu_, layout.bytes);
    if (layout.packing == Packing::rows) {
      copy_to_device(*gpu_, host.data, buffers_.back().data(), layout.bytes);
    } else {
      std::vector<std::byte> tiles(static_cast<std::size_t>(layout.bytes));
      Cpu cpu(1);
      pack_tiles(cpu, host, tiles.data());
      copy_to_device(*gpu_, tiles.data(), buffers_.back().data(), layout.bytes);
    }
    return {buffers_.back().data(), layout};
  }

  // Brings a GPU tensor's numbers into a host tensor of the same shape.
  void back(const Tensor& on_gpu, const Tensor& host) {
    copy_to_host(*gpu_, on_gpu.data(), host.data(), host.elements() * element_bytes(host.type()));
  }

  // What an op wrote on the GPU against the same op's result on the CPU, as a whole.
  void expect_near(const Tensor& on_gpu, const Tensor& expected, double tolerance, const std::string& what) {
    const OwnedTensor result = poisoned({expected.elements()});
    back(on_gpu, result.view());
    EXPECT_LE(relative_error(values_of(result.view()), values_of(expected)), tolerance) << what;
  }

 private:
  std::unique_ptr<Device> gpu_;
  std::vector<Buffer> buffers_;
};

}  // namespace moetune::testing

#endif
