// Every tile and chunk has somebody, nobody has more than there is room for, whatever the sizes.
#include "kernels/few_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace moetune {
namespace {

struct Sizes {
  int chunks, tiles, choices;
  FewLimits limits;
};

std::string text(const Sizes& at) {
  return std::to_string(at.chunks) + " chunks, " + std::to_string(at.tiles) + " tiles, " +
         std::to_string(at.choices) + " choices, " + std::to_string(at.limits.multiprocessors) +
         " multiprocessors, at most " + std::to_string(at.limits.most_tiles) + " tiles";
}

template <class Body>
void for_all_sizes(const Body& body) {
  for (const int chunks : {1, 2, 3, 11, 16, 23, 32, 112, 224})
    for (const int tiles : {1, 2, 48, 88, 128, 131, 132, 133, 180, 256, 896})
      for (const int choices : {1, 2, 4, 6, 8, 16})
        for (const int multiprocessors : {1, 20, 84, 132})
          for (const int most_tiles : {1, 2, 10, 1000})
            body(Sizes{chunks, tiles, choices, {multiprocessors, most_tiles}});
}

TEST(FewPlan, GateAndUpCoverEverything) {
  for_all_sizes([](const Sizes& at) {
    const GateShape shape = few_gate_shape(at.chunks, at.tiles, at.choices, at.limits);
    ASSERT_GE(shape.warps, 1) << text(at);
    ASSERT_LE(shape.warps, GateShape::kMostWarps) << text(at);
    ASSERT_GE(shape.warps * shape.steps, at.chunks) << text(at);
    ASSERT_EQ(shape.steps % GateShape::kTurn, 0) << text(at);
    // Not a whole turn too many.
    ASSERT_LT(shape.warps * (shape.steps - GateShape::kTurn), at.chunks) << text(at);
    ASSERT_GE(shape.tiles_each, 1) << text(at);
    ASSERT_LE(shape.tiles_each, at.limits.most_tiles) << text(at);
    // All blocks are there at once, unless their sums have no room.
    const int blocks = (at.tiles + shape.tiles_each - 1) / shape.tiles_each * at.choices;
    if (shape.tiles_each < at.limits.most_tiles && at.choices <= 2 * at.limits.multiprocessors) {
      ASSERT_LE(blocks, GateShape::kBlocksEach * at.limits.multiprocessors) << text(at);
    }
  });
}

TEST(FewPlan, DownCoversEverything) {
  for_all_sizes([](const Sizes& at) {
    const DownShape shape = few_down_shape(at.chunks, at.tiles, at.choices, at.limits);
    ASSERT_GE(shape.splits, 1) << text(at);
    ASSERT_GE(shape.warps, at.choices * shape.splits) << text(at);
    ASSERT_LE(shape.warps, DownShape::kMostWarps) << text(at);
    ASSERT_GE(shape.warps * 32, 64) << text(at) << ": a thread for every sum of a tile";
    ASSERT_GE(shape.tiles_each, 1) << text(at);
    ASSERT_LE(shape.tiles_each, at.limits.most_tiles) << text(at);
  });
}

// Two kinds of weights in one launch: of each everything has somebody, and neither is cut finer than it is.
TEST(FewPlan, PairsCoverEverything) {
  for_all_sizes([](const Sizes& at) {
    if (at.choices >= DownShape::kMostWarps) return;
    const FewSizes routed{at.chunks, at.tiles, 1056};
    for (const FewSizes& beside : {FewSizes{1, 1, 1024}, FewSizes{64, 176, 1024}, FewSizes{7, 3, 1056}}) {
      const GatePairShape gate = few_gate_pair_shape(routed, at.choices, beside, at.limits);
      ASSERT_GE(gate.warps, 1) << text(at);
      ASSERT_LE(gate.warps, GateShape::kMostWarps) << text(at);
      for (const auto& [steps, chunks] :
           {std::pair{gate.steps, at.chunks}, {gate.beside_steps, beside.chunks}}) {
        ASSERT_GE(gate.warps * steps, chunks) << text(at);
        ASSERT_EQ(steps % GateShape::kTurn, 0) << text(at);
        ASSERT_LT(gate.warps * (steps - GateShape::kTurn), chunks) << text(at);
      }
      for (const int each : {gate.tiles_each, gate.beside_tiles_each}) {
        ASSERT_GE(each, 1) << text(at);
        ASSERT_LE(each, at.limits.most_tiles) << text(at);
      }
      const DownPairShape down = few_down_pair_shape({at.chunks, at.tiles, 1056}, at.choices,
                                                     {2 * at.chunks, at.tiles, 1024}, at.limits);
      ASSERT_GE(down.splits, 1) << text(at);
      ASSERT_GE(down.beside_splits, 1) << text(at);
      ASSERT_LE(at.choices * down.splits + down.beside_splits, DownShape::kMostWarps) << text(at);
      ASSERT_GE(down.tiles_each, 1) << text(at);
      ASSERT_LE(down.tiles_each, at.limits.most_tiles) << text(at);
    }
  });
}

// V2-Lite on an H200: what is read beside the experts is a quarter of all in bf16, more than half in int4.
TEST(FewPlan, SharedExpertsGetTheirShare) {
  const FewLimits h200{132, 40};
  const FewSizes shared{64, 176, 1024};
  const GatePairShape bf16 = few_gate_pair_shape({64, 88, 1024}, 6, shared, h200);
  EXPECT_EQ(bf16.tiles_each, bf16.beside_tiles_each);
  const GatePairShape int4 = few_gate_pair_shape({16, 88, 1056}, 6, shared, h200);
  EXPECT_GT(int4.tiles_each, int4.beside_tiles_each);
  const auto blocks = [&](const GatePairShape& gate) {
    return 6 * ((88 + gate.tiles_each - 1) / gate.tiles_each) +
           (176 + gate.beside_tiles_each - 1) / gate.beside_tiles_each;
  };
  EXPECT_LE(blocks(bf16), 3 * 132);  // all there at once
  EXPECT_LE(blocks(int4), 3 * 132);
  // A warp of either kind has as much to read as the other.
  const DownPairShape down = few_down_pair_shape({44, 128, 1024}, 6, {88, 128, 1024}, h200);
  EXPECT_EQ(down.splits, 2);
  EXPECT_EQ(down.beside_splits, 4);
}

// An H200 and the models of the acceptance: no multiprocessor has more than a tenth more than its share of
// gate and up.
TEST(FewPlan, AnH200IsBalanced) {
  for (const Sizes& at : {Sizes{16, 48, 8, {132, 10}}, Sizes{16, 88, 6, {132, 10}},
                          Sizes{23, 180, 4, {132, 10}}, Sizes{32, 896, 2, {132, 10}}}) {
    const GateShape shape = few_gate_shape(at.chunks, at.tiles, at.choices, at.limits);
    const int blocks = (at.tiles + shape.tiles_each - 1) / shape.tiles_each * at.choices;
    const int busiest = (blocks + 131) / 132 * shape.tiles_each;
    EXPECT_LE(busiest * 132, at.tiles * at.choices * 1.11) << text(at);
  }
}

}  // namespace
}  // namespace moetune
