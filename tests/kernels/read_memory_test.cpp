// ReadMemory adds up every word once, whatever the size.
#include "kernels/read_memory.h"

#include <numeric>
#include <vector>

#include "kernels/run.h"
#include "tests/support/gpu.h"

namespace moetune::testing {
namespace {

std::vector<std::uint32_t> words(std::size_t count) {
  std::vector<std::uint32_t> words(count);
  std::uint32_t value = 1;
  for (std::uint32_t& word : words) word = value = value * 2654435761U + 12345U;
  return words;
}

TEST(ReadMemory, AddsUpEveryWord) {
  Device device = cpu(2);
  for (const std::size_t count : {0U, 4U, 1000U, 300000U}) {
    const std::vector<std::uint32_t> block = words(count);
    std::int32_t sum = 5;
    run(device,
        ReadMemory{
            .data = block.data(), .bytes = std::ssize(block) * 4, .sum = Tensor(&sum, NumberType::i32, {1})});
    EXPECT_EQ(static_cast<std::uint32_t>(sum), std::accumulate(block.begin(), block.end(), 5U)) << count;
  }
}

#if MOETUNE_HAS_CUDA
using CudaReadMemory = GpuTest;

TEST_F(CudaReadMemory, AddsUpEveryWord) {
  for (const std::size_t count : {0U, 4U, 1000U, 300000U, 20000004U}) {
    const std::vector<std::uint32_t> block = words(count);
    const Buffer data(gpu(), std::ssize(block) * 4);
    copy_to_device(gpu(), block.data(), data.data(), data.bytes());
    const OwnedTensor sum(gpu(), NumberType::i32, {1});
    std::int32_t found = 5;
    copy_to_device(gpu(), &found, sum.view().data(), 4);
    run(gpu(), ReadMemory{.data = data.data(), .bytes = data.bytes(), .sum = sum.view()});
    copy_to_host(gpu(), sum.view().data(), &found, 4);
    EXPECT_EQ(static_cast<std::uint32_t>(found), std::accumulate(block.begin(), block.end(), 5U)) << count;
  }
}
#endif

}  // namespace
}  // namespace moetune::testing
