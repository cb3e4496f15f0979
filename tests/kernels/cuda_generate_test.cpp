// Generate on the GPU gives the bytes of the processor, for every type, packing and odd size.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/generate.h"
#include "kernels/run.h"
#include "tests/support/generated_part.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaGenerate : public GpuTest {
 protected:
  void expect_same_bytes(Generate op, NumberType type, std::int64_t out, std::int64_t in, Packing packing) {
    op.layout = MatrixLayout::of(type, out, in, packing);
    const auto size = static_cast<std::size_t>(op.layout.bytes);
    std::vector<std::byte> expected(size, std::byte{0xA5});
    Device host = cpu(2);
    op.y = expected.data();
    run(host, op);
    std::vector<std::byte> bytes(size, std::byte{0x5A});  // poisoned otherwise than the processor's
    Buffer there(gpu(), op.layout.bytes);
    copy_to_device(gpu(), bytes.data(), there.data(), op.layout.bytes);
    op.y = there.data();
    run(gpu(), op);
    copy_to_host(gpu(), there.data(), bytes.data(), op.layout.bytes);
    const auto first = std::mismatch(bytes.begin(), bytes.end(), expected.begin()).first - bytes.begin();
    EXPECT_EQ(static_cast<std::size_t>(first), size)
        << "first difference in byte " << first << ": " << name_of(type) << " from "
        << name_of(op.source.shipped) << (packing == Packing::tiles ? " in tiles, " : " in rows, ") << out
        << "x" << in << " of " << op.in << " from " << op.first_row << ", " << op.first_column;
  }
};

TEST_F(CudaGenerate, EveryTypeAndPacking) {
  for (const NumberType shipped :
       {NumberType::f32, NumberType::f16, NumberType::bf16, NumberType::fp8, NumberType::mxfp4})
    for (const NumberType type : kWeightTypes)
      for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                    {17, 52},
                                    {130, 257},
                                    {16, 128},
                                    {129, 2880},
                                    {300, 2049}})
        for (const Packing packing : {Packing::rows, Packing::tiles})
          expect_same_bytes(part_of({.seed = 0xFEDCBA987654321ULL,
                                     .layer = 60,
                                     .tensor = 771,
                                     .shipped = shipped,
                                     .deviation = 0.0117F},
                                    in),
                            type, out, in, packing);
}

// Parts cut at multiples of a group, and at any column where there are none.
TEST_F(CudaGenerate, PartsOfAMatrix) {
  const NumberSource source{
      .seed = 1, .layer = 0, .tensor = 5, .shipped = NumberType::bf16, .deviation = 0.5F};
  for (const NumberType type : kWeightTypes)
    for (const Packing packing : {Packing::rows, Packing::tiles}) {
      expect_same_bytes(part_of(source, 1024, 128, 512), type, 128, 512, packing);
      expect_same_bytes(part_of(source, 1024, 77, 301), type, 50, 99, packing);
    }
}

}  // namespace
}  // namespace moetune
#endif
