// ExpertFfn and Combine: every type, experts nobody chose, one expert chosen by all, waves, threads, decode =
// prefill.
#include "kernels/expert_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "kernels/quantize.h"
#include "kernels/reference.h"
#include "kernels/run.h"
#include "tests/support/tensors.h"

namespace moetune {
namespace {
using namespace testing;

constexpr int kExperts = 6;
// Two products in a row over values of about 10 that cancel; a wrong weight would show as 0.1 or more.
constexpr double kTolerance = 1e-4;

// Experts in slots, in reverse order, so that a mix-up of slot and expert id cannot go unnoticed.
struct Experts {
  ExpertLayout layout;
  Buffer slots;
  OwnedTensor slot_of_expert;

  Experts(NumberType type, std::int64_t hidden, std::int64_t inner)
      : layout(ExpertLayout::of(type, hidden, inner)) {
    Device device = cpu();
    slots = Buffer(device, layout.bytes * kExperts);
    std::vector<std::int32_t> table;
    for (std::int32_t expert = 0; expert < kExperts; ++expert) {
      const std::int32_t slot = kExperts - 1 - expert;
      table.push_back(slot);
      std::byte* block = slots.data() + slot * layout.bytes;
      quantize(device, layout.gate, block, 10U + static_cast<unsigned>(expert));
      quantize(device, layout.up, block + layout.up_offset, 20U + static_cast<unsigned>(expert));
      quantize(device, layout.down, block + layout.down_offset, 30U + static_cast<unsigned>(expert));
    }
    slot_of_expert = ids(table);
  }

  static void quantize(Device& device, const MatrixLayout& matrix, std::byte* to, unsigned seed) {
    const OwnedTensor values = random_floats({matrix.out, matrix.in}, seed);
    run(device, Quantize{.x = values.view(), .y = to, .layout = matrix});
  }
};

// What a step routes where. Expert 4 is chosen by nobody, expert 2 by everybody, and as its second choice
// too.
std::vector<std::int32_t> choices(std::int64_t tokens) {
  std::vector<std::int32_t> chosen;
  for (std::int64_t token = 0; token < tokens; ++token) {
    chosen.push_back(2);
    chosen.push_back(token % 2 == 0 ? 0 : 5);
    chosen.push_back(token % 3 == 0 ? 1 : 3);
  }
  return chosen;
}

struct Step {
  OwnedTensor x;
  OwnedTensor chosen;
  Step(std::int64_t tokens, std::int64_t hidden)
      : x(random_floats({tokens, hidden}, 5)), chosen(ids({tokens, 3}, choices(tokens))) {}
};

ExpertFfn op_of(const Experts& experts, const Step& step, const OwnedTensor& rows) {
  return ExpertFfn{.x = step.x.view(),
                   .ids = step.chosen.view(),
                   .slot_of_expert = experts.slot_of_expert.view(),
                   .slots = experts.slots.data(),
                   .layout = experts.layout,
                   .rows = rows.view()};
}

TEST(ExpertFfn, ComesCloseToTheReferenceForEveryTypeAndShape) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const NumberType type : kWeightTypes)
      for (const auto& [hidden, inner] : {std::pair<std::int64_t, std::int64_t>{16, 8}, {33, 45}, {130, 33}})
        for (const std::int64_t tokens : {1, 6}) {
          Device device = cpu(2);
          const Experts experts(type, hidden, inner);
          const Step step(tokens, hidden);
          const OwnedTensor rows = poisoned({tokens, 3, hidden});
          const OwnedTensor expected = poisoned({tokens, 3, hidden});
          run(device, op_of(experts, step, rows));
          reference::run(op_of(experts, step, expected));
          expect_close(
              rows.view(), expected.view(), kTolerance,
              name_of_instruction_set(set) + " " + std::string(name_of(type)) + " " + std::to_string(hidden));
        }
  }
}

TEST(ExpertFfn, AllTokensToOneExpert) {
  Device device = cpu(2);
  const Experts experts(NumberType::int4, 64, 48);
  const OwnedTensor x = random_floats({70, 64}, 1);
  const OwnedTensor chosen = ids({70, 1}, std::vector<std::int32_t>(70, 3));
  const OwnedTensor rows = poisoned({70, 1, 64});
  const OwnedTensor expected = poisoned({70, 1, 64});
  ExpertFfn op{.x = x.view(),
               .ids = chosen.view(),
               .slot_of_expert = experts.slot_of_expert.view(),
               .slots = experts.slots.data(),
               .layout = experts.layout,
               .rows = rows.view()};
  run(device, op);
  op.rows = expected.view();
  reference::run(op);
  expect_close(rows.view(), expected.view(), kTolerance, "one expert");
}

TEST(ExpertFfn, WavesWriteTheirOwnRowsAndTogetherTheWhole) {
  Device device = cpu();
  for (const NumberType type : kWeightTypes) {
    const Experts experts(type, 40, 24);
    const Step step(9, 40);
    const OwnedTensor at_once = poisoned({9, 3, 40});
    run(device, op_of(experts, step, at_once));

    const OwnedTensor in_waves = poisoned({9, 3, 40});
    ExpertFfn op = op_of(experts, step, in_waves);
    for (std::int32_t wave = 0; wave < 3; ++wave) {
      std::vector<std::int32_t> table;
      for (std::int32_t expert = 0; expert < kExperts; ++expert)
        table.push_back(expert / 2 == wave ? experts.slot_of_expert.view().i32()[expert] : -1);
      const OwnedTensor present = ids(table);
      op.slot_of_expert = present.view();
      const std::vector<float> before = values_of(in_waves.view());
      run(device, op);
      const std::vector<float> after = values_of(in_waves.view());
      for (std::size_t i = 0; i < after.size(); ++i)
        if (step.chosen.view().i32()[i / 40] / 2 != wave) {
          ASSERT_EQ(std::memcmp(&before[i], &after[i], sizeof(float)), 0)
              << "wave " << wave << " touched element " << i;
        }
    }
    expect_same_bits(in_waves.view(), at_once.view(), std::string(name_of(type)));
  }
}

TEST(ExpertFfn, SameBitsForAnyNumberOfTokensAndThreads) {
  for (const std::int64_t set : instruction_sets()) {
    const WithInstructionSet only(set);
    for (const NumberType type : kWeightTypes) {
      const Experts experts(type, 72, 40);
      const Step step(13, 72);
      const OwnedTensor all_at_once = poisoned({13, 3, 72});
      Device one_thread = cpu();
      run(one_thread, op_of(experts, step, all_at_once));
      for (const int threads : {1, 2})
        for (const std::int64_t batch : {1, 5, 13}) {
          Device device = cpu(threads);
          const OwnedTensor rows = poisoned({13, 3, 72});
          for (std::int64_t first = 0; first < 13; first += batch) {
            const std::int64_t count = std::min<std::int64_t>(batch, 13 - first);
            ExpertFfn op = op_of(experts, step, rows);
            op.x = op.x.rows(first, count);
            op.ids = op.ids.rows(first, count);
            op.rows = op.rows.rows(first, count);
            run(device, op);
          }
          expect_same_bits(rows.view(), all_at_once.view(),
                           std::string(name_of(type)) + ", " + std::to_string(batch) + " tokens, " +
                               std::to_string(threads) + " threads");
        }
    }
  }
}

TEST(ExpertFfn, NothingToDoTouchesNothing) {
  Device device = cpu();
  const Experts experts(NumberType::bf16, 16, 8);
  const Step step(2, 16);
  const OwnedTensor rows = poisoned({2, 3, 16});
  ExpertFfn op = op_of(experts, step, rows);
  const OwnedTensor absent = ids(std::vector<std::int32_t>(kExperts, -1));
  op.slot_of_expert = absent.view();
  run(device, op);
  op.x = op.x.rows(0, 0);
  op.ids = op.ids.rows(0, 0);
  op.rows = op.rows.rows(0, 0);
  run(device, op);
  expect_same_bits(rows.view(), poisoned({2, 3, 16}).view(), "untouched");
}

TEST(Combine, AddsWeightedRowsOntoWhatIsThere) {
  Device device = cpu(2);
  const OwnedTensor rows = filled({2, 3, 5}, [](std::int64_t i) { return static_cast<float>(i); });
  const OwnedTensor shares = filled({2, 3}, [](std::int64_t i) { return static_cast<float>(1 << i); });
  const OwnedTensor y = filled({2, 5}, [](std::int64_t i) { return static_cast<float>(1000 * i); });
  run(device, Combine{.rows = rows.view(), .weights = shares.view(), .y = y.view()});
  const OwnedTensor expected = filled({2, 5}, [](std::int64_t i) {
    const std::int64_t token = i / 5;
    std::int64_t sum = 1000 * i;
    for (std::int64_t choice = 0; choice < 3; ++choice)
      sum += (1 << (token * 3 + choice)) * ((token * 3 + choice) * 5 + i % 5);
    return static_cast<float>(sum);
  });
  expect_same_bits(y.view(), expected.view(), "combine");
}

// What a GPU does in one is this on a CPU: the experts, then the shared ones, and whoever asks is told in
// between.
TEST(MoeFfn, IsTheExpertsAndThenTheSharedOnes) {
  Device device = cpu(2);
  const std::int64_t tokens = 2;
  const std::int64_t hidden = 16;
  const Experts experts(NumberType::bf16, hidden, 8);
  const Step step(tokens, hidden);
  const OwnedTensor weights = random_floats({tokens, 3}, 5);
  const OwnedMatrix gate = random_weights(NumberType::int8, 24, hidden, 1);
  const OwnedMatrix up = random_weights(NumberType::int8, 24, hidden, 2);
  const OwnedMatrix down = random_weights(NumberType::int8, hidden, 24, 3);
  const OwnedTensor rows = poisoned({tokens, 3, hidden});
  const OwnedTensor gated = poisoned({tokens, 24});
  const OwnedTensor upped = poisoned({tokens, 24});
  const OwnedTensor apart = random_floats({tokens, hidden}, 4);
  const OwnedTensor together = random_floats({tokens, hidden}, 4);
  const auto routed = [&](const OwnedTensor& y) {
    return RoutedFfn{.ffn = op_of(experts, step, rows), .weights = weights.view(), .y = y.view()};
  };
  const auto shared = [&](const OwnedTensor& y) {
    return FeedForward{.x = op_of(experts, step, rows).x,
                       .gate = gate.w,
                       .up = up.w,
                       .down = down.w,
                       .gated = gated.view(),
                       .upped = upped.view(),
                       .y = y.view()};
  };
  run(device, routed(apart));
  const OwnedTensor routed_alone = random_floats({tokens, hidden}, 4);
  std::copy_n(apart.view().f32(), tokens * hidden, routed_alone.view().f32());
  run(device, shared(apart));
  int told = 0;
  const std::function<void()> before_shared = [&] {
    ++told;
    expect_same_bits(together.view(), routed_alone.view(), "before the shared ones");
  };
  run(device,
      MoeFfn{.routed = routed(together), .shared = shared(together), .before_shared = &before_shared});
  EXPECT_EQ(told, 1);
  expect_same_bits(together.view(), apart.view(), "both");
}

}  // namespace
}  // namespace moetune
