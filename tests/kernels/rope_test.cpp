// Rope against the rotation written out, and its frequencies against those of transformers 5.17
// (transformers.modeling_rope_utils._compute_yarn_parameters, float32 on a CPU).
#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

struct Known {
  std::size_t index;
  float radians_per_position;
};

void expect_frequencies(const RopeFrequencies& actual, std::size_t count, double attention_factor,
                        const std::vector<Known>& known) {
  ASSERT_EQ(actual.radians_per_position.size(), count);
  EXPECT_DOUBLE_EQ(actual.attention_factor, attention_factor);
  for (const auto& [index, expected] : known)  // two units in the last place: pow() differs between libraries
    EXPECT_NEAR(actual.radians_per_position[index], expected, expected * 2.4e-7F) << index;
}

TEST(RopeFrequencies, Plain) {
  expect_frequencies(rope_frequencies(1e6, 128), 64, 1.0,
                     {{0, 1.0F}, {1, 0x1.9c975ap-1F}, {31, 0x1.454deep-10F}, {63, 0x1.4d1c98p-20F}});
  EXPECT_TRUE(rope_frequencies(1e4, 0).radians_per_position.empty());
}

TEST(RopeFrequencies, YarnAsDeepSeekV3ShipsIt) {
  const YarnParameters yarn{
      .factor = 40, .original_context = 4096, .mscale = 1.0, .mscale_all_dim = 1.0, .attention_factor = {}};
  expect_frequencies(rope_frequencies(1e4, 64, yarn), 32, 1.0,
                     {{0, 1.0F},
                      {8, 0x1.99999ap-4F},
                      {10, 0x1.ccab84p-5F},
                      {14, 0x1.97e506p-7F},
                      {16, 0x1.6872b2p-8F},
                      {21, 0x1.b32624p-12F},
                      {31, 0x1.bf749ep-19F}});
}

TEST(RopeFrequencies, YarnWithFactorOnly) {
  const YarnParameters yarn{.factor = 4, .original_context = 32768, .attention_factor = {}};
  expect_frequencies(rope_frequencies(1e6, 128, yarn), 64, 1.138629436111989,
                     {{16, 0x1.030dc6p-5F},
                      {21, 0x1.6020a4p-7F},
                      {30, 0x1.17040ep-10F},
                      {32, 0x1.3c1d64p-11F},
                      {42, 0x1.e459c4p-16F},
                      {63, 0x1.4d1c98p-22F}});
}

TEST(RopeFrequencies, YarnWithBothScalesAndNoTruncation) {
  const YarnParameters yarn{.factor = 8,
                            .original_context = 64,
                            .beta_fast = 4,
                            .mscale = 0.707,
                            .mscale_all_dim = 1.2,
                            .attention_factor = {},
                            .truncate = false};
  expect_frequencies(rope_frequencies(1e4, 16, yarn), 8, 0.9179561730379721,
                     {{0, 1.0F}, {2, 0x1.bfb302p-7F}, {4, 0x1.47ae14p-10F}, {7, 0x1.4b96cp-15F}});
}

TEST(RopeFrequencies, YarnWithGivenAttentionFactorAndNothingKept) {
  const YarnParameters yarn{.factor = 2, .original_context = 8, .attention_factor = 1.5};
  expect_frequencies(rope_frequencies(1e4, 16, yarn), 8, 1.5,
                     {{0, 1.0F}, {2, 0x1.99999ap-5F}, {4, 0x1.47ae14p-8F}, {7, 0x1.4b96cp-13F}});
}

TEST(RopeFrequencies, MscaleIsOneWithoutScaling) {
  EXPECT_EQ(yarn_mscale(1.0, 0.7), 1.0);
  EXPECT_EQ(yarn_mscale(0.5), 1.0);
  EXPECT_DOUBLE_EQ(yarn_mscale(40.0, 0.5), 0.05 * std::log(40.0) + 1.0);
}

// Two tokens, three heads, four pairs; the heads are slices of wider rows.
void expect_rotated(bool interleaved) {
  Device device = cpu(2);
  const OwnedTensor wide = random_floats({2, 3, 11}, 1);
  const std::vector<float> before = values_of(wide.view());
  const OwnedTensor positions = ids({0, 5});
  const OwnedTensor frequencies =
      filled({4}, [](std::int64_t i) { return 1.0F / static_cast<float>(1 << i); });
  run(device, Rope{.x = wide.view().columns(2, 8),
                   .positions = positions.view(),
                   .frequencies = frequencies.view(),
                   .scale = 1.25F,
                   .interleaved = interleaved});
  const OwnedTensor expected = filled({2, 3, 11}, [&](std::int64_t at) {
    const std::int64_t column = at % 11 - 2;
    const float unchanged = before[static_cast<std::size_t>(at)];
    if (column < 0 || column >= 8) return unchanged;
    const std::int64_t pair = interleaved ? column / 2 : column % 4;
    const bool is_first = interleaved ? column % 2 == 0 : column < 4;
    const std::int64_t step = interleaved ? 1 : 4;
    const double partner =
        static_cast<double>(before[static_cast<std::size_t>(is_first ? at + step : at - step)]);
    const double angle = (at / 33 == 1 ? 5.0 : 0.0) / static_cast<double>(1 << pair);
    return static_cast<float>(1.25 * (static_cast<double>(unchanged) * std::cos(angle) +
                                      (is_first ? -partner : partner) * std::sin(angle)));
  });
  expect_close(wide.view(), expected.view(), 1e-6, interleaved ? "interleaved" : "halves");
}

TEST(Rope, RotatesHalves) { expect_rotated(false); }
TEST(Rope, RotatesInterleavedPairs) { expect_rotated(true); }

}  // namespace
}  // namespace moetune
