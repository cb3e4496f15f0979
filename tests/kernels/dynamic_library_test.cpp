#include "kernels/dynamic_library.h"

#include <gtest/gtest.h>

namespace moetune {
namespace {

TEST(DynamicLibrary, HandsOutItsFunctions) {
  const DynamicLibrary library(FAKE_NVML);
  ASSERT_TRUE(library.is_open()) << library.problem();
  EXPECT_EQ(library.problem(), "");
  const char* (*error_text)(int) = nullptr;
  ASSERT_TRUE(library.find(error_text, "nvmlErrorString"));
  EXPECT_STREQ(error_text(3), "Not Supported");
}

TEST(DynamicLibrary, AFunctionItDoesNotHaveIsNull) {
  const DynamicLibrary library(FAKE_NVML);
  int (*function)() = [] { return 1; };
  EXPECT_FALSE(library.find(function, "no_such_function"));
  EXPECT_EQ(function, nullptr);
}

TEST(DynamicLibrary, OneThatIsNotThereSaysWhyAndHasNothing) {
  const DynamicLibrary library("/no/such/library.so");
  EXPECT_FALSE(library.is_open());
  EXPECT_NE(library.problem().find("/no/such/library.so"), std::string::npos) << library.problem();
  void* (*function)(std::size_t) = nullptr;
  EXPECT_FALSE(library.find(function, "malloc")) << "not that of the program either";
}

}  // namespace
}  // namespace moetune
