// A library of the CUDA toolkit that is not there is named, with where it was looked for and what would help.
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

#if MOETUNE_HAS_CUDA

#include "kernels/cuda/toolkit_library.cuh"

namespace moetune {
namespace {

TEST(ToolkitLibrary, ThatIsNotThereIsNamed) {
  std::string problem;
  EXPECT_EQ(cuda::open_toolkit_library("libnobody_has_this.so.7", {"/lib64/"}, "lib64", problem), nullptr);
  EXPECT_TRUE(has_text(problem, "libnobody_has_this.so.7 is not found in the library path")) << problem;
  EXPECT_TRUE(has_text(problem, "in lib64: add that folder to LD_LIBRARY_PATH")) << problem;
}

TEST(ToolkitLibrary, ThatIsThereIsOpened) {
  std::string problem;
  EXPECT_NE(cuda::open_toolkit_library("libm.so.6", {}, "", problem), nullptr);
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace moetune

#endif
