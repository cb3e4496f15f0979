#include "kernels/dynamic_library.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/support/beside_program.h"

namespace moetune {
namespace {

std::string fake() { return beside_program("libfake_nvml.so"); }

TEST(DynamicLibrary, HandsOutItsFunctions) {
  const DynamicLibrary library(fake());
  ASSERT_TRUE(library.is_open()) << library.problem();
  EXPECT_EQ(library.problem(), "");
  const char* (*error_text)(int) = nullptr;
  ASSERT_TRUE(library.find(error_text, "nvmlErrorString"));
  EXPECT_STREQ(error_text(3), "Not Supported");
}

TEST(DynamicLibrary, AFunctionItDoesNotHaveIsNull) {
  const DynamicLibrary library(fake());
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
