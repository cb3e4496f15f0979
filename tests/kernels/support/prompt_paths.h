// The kernels that a prompt may take, each forced from two tokens on, and how exact they are.
#pragma once

#include <cstdio>

#include "kernels/dense_choice.h"
#include "kernels/kernel_path.h"
#include "kernels/number_type.h"
#include "tests/support/gpu.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {

struct Path {
  const char* name;
  KernelPath path;
};
// From two tokens on, so that small sizes are tested too.
inline constexpr Path kPaths[] = {{"best",
                                   {.is_portable = false,
                                    .least_prompt_tokens = 2,
                                    .most_many_tokens = 0,
                                    .most_split_tokens = 0,
                                    .most_sliced_tokens = 0,
                                    .dense = DenseChoice::own}},
                                  {"best, two parts",
                                   {.is_portable = false,
                                    .least_prompt_tokens = 2,
                                    .most_many_tokens = 0,
                                    .most_split_tokens = 1 << 30,
                                    .most_sliced_tokens = 0,
                                    .dense = DenseChoice::own}},
                                  {"portable",
                                   {.is_portable = true,
                                    .least_prompt_tokens = 2,
                                    .most_many_tokens = 0,
                                    .most_split_tokens = 0,
                                    .most_sliced_tokens = 0,
                                    .dense = DenseChoice::own}},
                                  {"portable, two parts",
                                   {.is_portable = true,
                                    .least_prompt_tokens = 2,
                                    .most_many_tokens = 0,
                                    .most_split_tokens = 1 << 30,
                                    .most_sliced_tokens = 0,
                                    .dense = DenseChoice::own}},
                                  {"cuBLAS",
                                   {.is_portable = false,
                                    .least_prompt_tokens = 2,
                                    .most_many_tokens = 0,
                                    .most_split_tokens = 0,
                                    .most_sliced_tokens = 0,
                                    .dense = DenseChoice::cublas}}};

inline bool uses_cublas(const Path& path) { return path.path.dense == DenseChoice::cublas; }
// Says so: a test that leaves it out has tested less.
inline bool is_left_out(const Path& path) {
  if (!uses_cublas(path) || why_no_cublas().empty()) return false;
  std::printf("cuBLAS is left out: %s\n", why_no_cublas().c_str());
  return true;
}

// Weights with a scale are rounded to bf16 with it, f16 as such; an int8 row's scale meets the sums, but not
// cuBLAS's.
inline double rounding_of(NumberType type, const Path& path) {
  if (type == NumberType::int8) return uses_cublas(path) ? 4e-3 : 2e-6;
  return type == NumberType::bf16 || type == NumberType::mxfp4 ? 2e-6 : 4e-3;
}

// Leaves the kernels as they were.
class PromptTest : public GpuTest {
 protected:
  void TearDown() override { set_kernel_path(KernelPath{}); }
  Device cpu_ = cpu();
};

}  // namespace moetune::testing

#endif
