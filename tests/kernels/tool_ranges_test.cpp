#include "kernels/tool_ranges.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/beside_program.h"

namespace moetune {
namespace {

TEST(ToolRange, IsNothingWithoutATool) {
  if (std::getenv("NVTX_INJECTION64_PATH") != nullptr) GTEST_SKIP() << "a tool runs this test";
  const ToolRange range("moetune: a range");
  EXPECT_FALSE(tool_watches());
}

// In a process of its own: NVTX looks for a tool once.
TEST(ToolRangeDeathTest, IsShownByATool) {
#if !MOETUNE_HAS_CUDA
  GTEST_SKIP() << "this build has no CUDA, so no NVTX";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ranges = [] {
    setenv("NVTX_INJECTION64_PATH", beside_program("libfake_nvtx_tool.so").c_str(), 1);
    {
      const ToolRange layer("moetune: layer", 3);
      ToolRange range("moetune: gate_up");
      range.go_on_as("moetune: down_combine");
    }
    std::exit(tool_watches() ? 0 : 1);
  };
  EXPECT_EXIT(
      ranges(), ::testing::ExitedWithCode(0),
      "^open moetune: layer 3\nopen moetune: gate_up\nclose\nopen moetune: down_combine\nclose\nclose\n$");
}

}  // namespace
}  // namespace moetune
