#include "kernels/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <vector>

#include "tests/support/tensors.h"

namespace moetune {
namespace {

TEST(Buffer, IsAlignedAndHoldsWhatIsCopiedIn) {
  Device device = testing::cpu();
  for (const std::int64_t bytes : {0, 1, 255, 4096, 5'000'000}) {
    const Buffer buffer(device, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U) << bytes;
    std::vector<std::byte> in(static_cast<std::size_t>(bytes));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::byte>(i % 251);
    copy_to_device(device, in.data(), buffer.data(), bytes);
    std::vector<std::byte> out(in.size());
    copy_to_host(device, buffer.data(), out.data(), bytes);
    EXPECT_EQ(in, out) << bytes;
  }
}

TEST(Buffer, CopiesShareTheMemory) {
  Device device = testing::cpu();
  Buffer first(device, 8);
  const Buffer second = first;
  first = Buffer();
  EXPECT_EQ(first.data(), nullptr);
  second.data()[7] = std::byte{1};  // still alive
}

TEST(Buffer, MoreThanTheMachineHasIsBadAlloc) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers end the program at such a request";
#endif
  Device device = testing::cpu();
  EXPECT_THROW(Buffer(device, std::numeric_limits<std::int64_t>::max() / 2), std::bad_alloc);
}

TEST(OwnedTensor, RefusesShapesBeyondMemory) {
  Device device = testing::cpu();
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_THROW(OwnedTensor(device, NumberType::f32, {huge, huge}), std::invalid_argument);
  EXPECT_THROW(OwnedTensor(device, NumberType::f32, {-1}), std::invalid_argument);
}

}  // namespace
}  // namespace moetune
