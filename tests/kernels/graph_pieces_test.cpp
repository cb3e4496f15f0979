// Ops with the host's part in between, recorded and launched again: on a CPU the same calls once more, on a
// GPU graphs, whose number is counted by what the host sees when its turn comes.
#include "kernels/graph_pieces.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/elementwise.h"
#include "kernels/run.h"
#include "tests/support/gpu.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

TEST(GraphPieces, OnACpuTheStepIsRunAgain) {
  Device device = cpu();
  GraphPieces pieces;
  std::string said;
  EXPECT_FALSE(pieces.is_current());
  const auto step = [&] {
    said += 'a';
    pieces.host([&] { said += '-'; });
    pieces.cut();  // one piece after the other is what it is anyway
    said += 'b';
  };
  pieces.record(device, step);
  EXPECT_EQ(said, "a-b");
  ASSERT_TRUE(pieces.is_current());
  pieces.launch();
  pieces.launch();
  EXPECT_EQ(said, "a-ba-ba-b");
}

TEST(GraphPieces, WhatTheStepThrowsComesOut) {
  Device device = cpu();
  GraphPieces pieces;
  EXPECT_THROW(pieces.record(device, [&] { pieces.host([] { throw std::runtime_error("no"); }); }),
               std::runtime_error);
  EXPECT_FALSE(pieces.is_current());
}

#if MOETUNE_HAS_CUDA

class CudaGraphPieces : public GpuTest {
 protected:
  float first_of(const Tensor& x) {
    float value = 0.0F;
    copy_to_host(gpu(), x.data(), &value, sizeof(value));
    return value;
  }
};

// The host sees what the ops before its part have done, and the ops after it see what it did.
TEST_F(CudaGraphPieces, KeepTheOrderOfOpsAndHost) {
  const OwnedTensor one = filled({64}, [](std::int64_t) { return 1.0F; });
  const OwnedTensor zero = filled({64}, [](std::int64_t) { return 0.0F; });
  const Tensor step_by = there(one.view());
  const Tensor sum = there(zero.view());
  const auto add = [&] { run(gpu(), Add{.x = step_by, .y = sum}); };
  add();
  wait_for(gpu());
  std::vector<float> seen;
  GraphPieces pieces;
  const auto double_it = [&] {
    seen.push_back(first_of(sum));
    std::vector<float> doubled(64, 2.0F * seen.back());
    copy_to_device(gpu(), doubled.data(), sum.data(), 64 * 4);
  };
  pieces.record(gpu(), [&] {  // ((sum + 1) * 2 + 2) * 2 * 2
    add();
    pieces.host(double_it);
    add(), add();
    pieces.host(double_it);
    pieces.host(double_it);  // two in a row: no graph in between
  });
  EXPECT_EQ(seen, (std::vector<float>{2.0F, 6.0F, 12.0F}));
  EXPECT_EQ(first_of(sum), 24.0F);
  ASSERT_TRUE(pieces.is_current());
  pieces.launch();
  EXPECT_EQ(seen, (std::vector<float>{2.0F, 6.0F, 12.0F, 25.0F, 52.0F, 104.0F}));
  EXPECT_EQ(first_of(sum), 208.0F);
}

TEST_F(CudaGraphPieces, ACutChangesNothingButTheNumberOfLaunches) {
  const OwnedTensor one = filled({64}, [](std::int64_t) { return 1.0F; });
  const Tensor x = there(one.view());
  const auto doubled = [&] { run(gpu(), Add{.x = x, .y = x}); };
  doubled();
  GraphPieces pieces;
  pieces.record(gpu(), [&] {
    doubled();
    pieces.cut();
    doubled(), doubled();
    pieces.cut();
    pieces.cut();  // an empty piece
    doubled();
  });
  EXPECT_EQ(first_of(x), 32.0F);
  ASSERT_TRUE(pieces.is_current());
  pieces.launch();
  EXPECT_EQ(first_of(x), 512.0F);
}

TEST_F(CudaGraphPieces, AFailedRecordingLeavesTheDeviceUsable) {
  GraphPieces pieces;
  const OwnedTensor one = filled({64}, [](std::int64_t) { return 1.0F; });
  const Tensor x = there(one.view());
  run(gpu(), Add{.x = x, .y = x});
  EXPECT_THROW(pieces.record(gpu(),
                             [&] {
                               run(gpu(), Add{.x = x, .y = x});
                               throw std::runtime_error("no");
                             }),
               std::runtime_error);
  EXPECT_FALSE(pieces.is_current());
  run(gpu(), Add{.x = x, .y = x});
  EXPECT_EQ(first_of(x), 4.0F) << "what was recorded in vain has run";
}

#endif

}  // namespace
}  // namespace moetune
