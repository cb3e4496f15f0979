// Guesses of the next layer's experts: the CUDA ops against the CPU's, on the same invented steps.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/buffer.h"
#include "kernels/guess_experts.h"
#include "kernels/run.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {

class CudaGuessExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    gpu_.emplace_back(Cuda(0));
  }
  Device& gpu() { return gpu_.front(); }

  // Skewed, so that guesses have favourites and ties; one in eight is no expert.
  std::vector<std::int32_t> choices(int count, int experts) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < count; ++i) {
      const auto any = static_cast<int>(random_() % static_cast<unsigned>(experts));
      const auto other = static_cast<int>(random_() % static_cast<unsigned>(experts));
      ids.push_back(random_() % 8 == 0 ? -1 : std::min(any, other));
    }
    return ids;
  }

  std::vector<Device> gpu_;
  Device cpu_ = Cpu(1);
  std::mt19937 random_{3};
};

OwnedTensor tensor_of(Device& device, std::int64_t rows, std::int64_t columns,
                      const std::vector<std::int32_t>& values) {
  OwnedTensor tensor(device, NumberType::i32, {rows, columns});
  copy_to_device(device, values.data(), tensor.view().data(), tensor.bytes());
  wait_for(device);
  return tensor;
}

std::vector<std::int32_t> values_of(Device& device, const Tensor& tensor) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(tensor.elements()));
  copy_to_host(device, tensor.data(), values.data(), tensor.elements() * 4);
  return values;
}

// Two layers in turn, so that what is learned is what is guessed from later.
TEST_F(CudaGuessExperts, FollowersAreThoseOfTheCpu) {
  for (const int experts : {8, 128, 1000})
    for (const int tokens : {1, 5, 40}) {
      const int k = 4;
      const std::vector<std::int32_t> zeros(static_cast<std::size_t>(experts) *
                                            static_cast<std::size_t>(experts));
      const std::vector<std::int32_t> nothing(static_cast<std::size_t>(tokens * k), -1);
      Device* const devices[] = {&cpu_, &gpu()};
      std::vector<OwnedTensor> counts[2];
      std::vector<OwnedTensor> before;
      std::vector<OwnedTensor> guesses;
      for (const int on : {0, 1}) {
        for (int layer = 0; layer < 2; ++layer)
          counts[on].push_back(tensor_of(*devices[on], experts, experts, zeros));
        before.push_back(tensor_of(*devices[on], tokens, k, nothing));
        guesses.push_back(tensor_of(*devices[on], tokens, k, nothing));
      }
      bool guessed_any = false;
      for (int step = 0; step < 12; ++step) {
        const std::vector<std::int32_t> chosen = choices(tokens * k, experts);
        std::vector<std::int32_t> found[2];
        for (const int on : {0, 1}) {
          const OwnedTensor ids = tensor_of(*devices[on], tokens, k, chosen);
          run(*devices[on],
              FollowExperts{.ids = ids.view(),
                            .before = before[static_cast<std::size_t>(on)].view(),
                            .learns = step > 0,
                            .counts = counts[on][static_cast<std::size_t>(step % 2)].view(),
                            .next_counts = counts[on][static_cast<std::size_t>((step + 1) % 2)].view(),
                            .guesses = guesses[static_cast<std::size_t>(on)].view()});
          found[on] = values_of(*devices[on], guesses[static_cast<std::size_t>(on)].view());
        }
        ASSERT_EQ(found[1], found[0]) << experts << " experts, " << tokens << " tokens, step " << step;
        guessed_any = guessed_any || found[0].front() >= 0;
      }
      EXPECT_TRUE(guessed_any);
      EXPECT_EQ(values_of(gpu(), counts[1][1].view()), values_of(cpu_, counts[0][1].view()));
    }
}

TEST_F(CudaGuessExperts, ATableRemembersTheLastTokenOfAStep) {
  const int vocabulary = 7;
  const int tokens = 200;  // every id many times
  const int k = 3;
  Device* const devices[] = {&cpu_, &gpu()};
  const std::vector<std::int32_t> nothing(static_cast<std::size_t>(vocabulary * 4), -1);
  std::vector<std::int32_t> token_ids;
  for (int i = 0; i < tokens; ++i) token_ids.push_back(static_cast<std::int32_t>(random_() % vocabulary));
  const std::vector<std::int32_t> chosen = choices(tokens * k, 50);
  std::vector<std::int32_t> found[2];
  for (const int on : {0, 1}) {
    Device& device = *devices[on];
    const OwnedTensor table = tensor_of(device, vocabulary, 4, nothing);
    const OwnedTensor ids = tensor_of(device, tokens, k, chosen);
    const OwnedTensor asked = tensor_of(device, tokens, 1, token_ids);
    const OwnedTensor guesses = tensor_of(device, tokens, k, chosen);
    const Tensor asked_ids = asked.view().reshaped({tokens});
    run(device, RecallExperts{.token_ids = asked_ids, .ids = ids.view(), .table = table.view()});
    run(device, RecallExperts{.token_ids = asked_ids, .next_table = table.view(), .guesses = guesses.view()});
    found[on] = values_of(device, guesses.view());
  }
  EXPECT_EQ(found[1], found[0]);
  EXPECT_NE(found[0], chosen) << "a later token of the same id replaces an earlier one";
}

}  // namespace
}  // namespace moetune

#endif
