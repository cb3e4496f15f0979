// The engine's logits against those that transformers computed in float32 on a CPU
// (tests/golden/make_goldens.py), for every layout and for tiny-moe; and step-by-step decode against prefill.
// Bit-for-bit comparisons of the engine with itself: engine_steps_test.cpp.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

constexpr double kAgainstTransformers = 2e-3;  // absolute
constexpr double kDecodeAgainstPrefill = 1e-4;

class GoldenLogits : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenLogits, PrefillEqualsTransformers) {
  const Golden expected = golden(GetParam());
  Engine engine = engine_over(expected);
  const std::vector<float> logits = teacher_forced(engine, expected.ids, expected.ids.size());
  EXPECT_LE(largest_difference(logits, expected.logits), kAgainstTransformers);
}

TEST_P(GoldenLogits, DecodeEqualsPrefill) {
  const Golden expected = golden(GetParam());
  Engine prefill = engine_over(expected);
  Engine decode = engine_over(expected);
  const std::vector<float> at_once = teacher_forced(prefill, expected.ids, expected.ids.size());
  const std::vector<float> one_by_one = teacher_forced(decode, expected.ids, 1);
  EXPECT_LE(largest_difference(one_by_one, at_once), kDecodeAgainstPrefill);
  EXPECT_LE(largest_difference(one_by_one, expected.logits), kAgainstTransformers);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, GoldenLogits, ::testing::ValuesIn(golden_names()),
                         [](const auto& checkpoint) { return checkpoint.param; });

// The goldens are found by looking into the folder; a lost one must not pass unnoticed, nor one that has
// shrunk.
TEST(Goldens, AreAllThere) {
  const std::vector<std::string> names = golden_names();
  EXPECT_EQ(
      std::set<std::string>(names.begin(), names.end()),
      (std::set<std::string>{"deepseek_v3_direct_q", "deepseek_v3_yarn", "mixtral", "mixtral_window_fused",
                             "qwen3_moe_shards", "qwen3_moe_yarn", "tiny_moe"}));
  for (const std::string& name : names) {
    const Golden expected = golden(name);
    EXPECT_EQ(expected.ids.size(), name == "tiny_moe" ? 256U : 60U);
    EXPECT_EQ(expected.logits.size(),
              expected.ids.size() * static_cast<std::size_t>(spec_of(*expected.checkpoint).vocabulary));
  }
}

}  // namespace
}  // namespace moetune::testing
