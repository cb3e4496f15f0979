#include "kernels/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/buffer.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

TEST(Tensor, RowsAndColumnsAreViewsWithTheStridesOfTheWhole) {
  const OwnedTensor whole = filled({4, 6}, [](std::int64_t i) { return static_cast<float>(i); });
  const Tensor part = whole.view().rows(1, 2).columns(2, 3);
  EXPECT_EQ(values_of(part), (std::vector<float>{8, 9, 10, 14, 15, 16}));
  EXPECT_EQ(part.stride(0), 6);
  EXPECT_FALSE(part.contiguous());
  EXPECT_TRUE(whole.view().rows(1, 2).contiguous());
}

TEST(Tensor, OneRowIsContiguousWhateverItsStride) {
  const OwnedTensor whole = filled({4, 6}, [](std::int64_t i) { return static_cast<float>(i); });
  EXPECT_TRUE(whole.view().rows(1, 1).columns(2, 3).contiguous());
}

TEST(Tensor, ReshapedKeepsTheOrderOfElements) {
  const OwnedTensor whole = filled({2, 6}, [](std::int64_t i) { return static_cast<float>(i); });
  const Tensor heads = whole.view().reshaped({2, 3, 2});
  EXPECT_EQ(heads.stride(0), 6);
  EXPECT_EQ(heads.stride(1), 2);
  EXPECT_EQ(values_of(heads.columns(1, 1)), (std::vector<float>{1, 3, 5, 7, 9, 11}));
}

TEST(Tensor, NarrowTypesStepByTheirOwnSize) {
  Device device = cpu();
  const OwnedTensor halves(device, NumberType::bf16, {3, 5});
  EXPECT_EQ(halves.view().rows(2, 1).columns(1, 1).as<std::byte>() - halves.view().as<std::byte>(), 22);
  EXPECT_EQ(halves.bytes(), 30);
}

TEST(Tensor, EmptyMeansAbsentNotWithoutElements) {
  Device device = cpu();
  EXPECT_TRUE(Tensor().empty());
  EXPECT_EQ(Tensor().elements(), 0);
  const OwnedTensor none(device, NumberType::f32, {0, 7});
  EXPECT_FALSE(none.view().empty());
  EXPECT_EQ(none.view().elements(), 0);
}

}  // namespace
}  // namespace moetune
