// Which products go to cuBLAS is a matter of shape and tokens alone, and what they take of scratch memory is
// laid out without overlaps.
#include "kernels/dense_choice.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "kernels/number_type.h"

namespace moetune {
namespace {

constexpr NumberType kTypes[] = {NumberType::bf16, NumberType::fp8, NumberType::int8, NumberType::int4};

// A step of more tokens never goes back to the own kernels: the memory plan asks for the largest only.
TEST(DenseChoice, MoreTokensNeverChangeItBack) {
  for (const OwnKernels own : {OwnKernels::wgmma, OwnKernels::portable})
    for (const NumberType type : kTypes)
      for (const std::int64_t out : {16, 512, 2048, 2112, 4096, 5120, 7168, 18432, 24576, 151936})
        for (const std::int64_t in : {64, 1536, 2048, 4096, 7168, 16384}) {
          bool paid = false;
          for (std::int64_t tokens = 1; tokens <= 65536; tokens += tokens < 2048 ? 1 : 509) {
            const bool pays = cublas_pays({type, out, in}, tokens, own);
            EXPECT_TRUE(pays || !paid) << out << "x" << in << ", " << tokens << " tokens";
            paid = pays;
          }
        }
}

// What reports/h200/cublas.txt shows, at both ends.
TEST(DenseChoice, StepsOfDecodingStayWithTheOwnKernels) {
  EXPECT_FALSE(cublas_pays({NumberType::bf16, 5120, 2048}, 63, OwnKernels::wgmma));
  EXPECT_TRUE(cublas_pays({NumberType::bf16, 5120, 2048}, 4096, OwnKernels::wgmma));
  EXPECT_FALSE(cublas_pays({NumberType::bf16, 64, 64}, 4096, OwnKernels::wgmma))
      << "launches take longer than the product";
}

TEST(DenseChoice, ScratchHoldsItsParts) {
  for (const NumberType type : kTypes)
    for (const std::int64_t in : {13, 332, 2048}) {
      const CublasScratch scratch = cublas_scratch({type, 301, in}, 77);
      EXPECT_EQ(scratch.workspace, 0);
      EXPECT_GE(scratch.weights, kCublasWorkspaceBytes);
      EXPECT_GE(scratch.activations - scratch.weights, 301 * in * 2);
      EXPECT_GE(scratch.biases - scratch.activations, 77 * in * 2);
      EXPECT_GE(scratch.bytes - scratch.biases, 301 * 4);
      for (const std::int64_t at : {scratch.weights, scratch.activations, scratch.biases})
        EXPECT_EQ(at % 256, 0);
    }
}

TEST(DenseChoice, NamesCublasOrSaysWhyNot) {
  EXPECT_EQ(why_no_cublas().empty(), !cublas_name().empty());
  EXPECT_TRUE(cublas_name().empty() || cublas_name().starts_with("cuBLAS ")) << cublas_name();
}

// Whoever plans for a GPU without running on it opens neither the driver nor cuBLAS.
TEST(DenseChoice, WhatAnotherProcessFoundIsTakenForIt) {
  const std::string here = why_no_cublas();
  tell_dense_gpu(DenseGpu{.compute_major = 8, .why_no_cublas = "not in this test"});
  EXPECT_EQ(own_kernels(), OwnKernels::portable);
  EXPECT_EQ(why_no_cublas(), "not in this test");
  tell_dense_gpu(DenseGpu{.compute_major = 9, .why_no_cublas = ""});
  EXPECT_EQ(own_kernels(), OwnKernels::wgmma);
  EXPECT_EQ(why_no_cublas(), "");
  tell_dense_gpu(std::nullopt);
  EXPECT_EQ(why_no_cublas(), here);
}

}  // namespace
}  // namespace moetune
