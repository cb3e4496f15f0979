// Causal attention of the tokens of several prompts in one step against the CPU.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "kernels/attention.h"
#include "kernels/mla_attention.h"
#include "kernels/run.h"
#include "tests/kernels/support/prompt_paths.h"
#include "tests/support/tensors.h"

#if MOETUNE_HAS_CUDA

namespace moetune {
namespace {
using namespace testing;

class CudaPromptAttention : public PromptTest {};

// Ends of several prompts in one step, with and without a window; a block has 128 tokens, a tile 64 keys.
TEST_F(CudaPromptAttention, AttentionOfRuns) {
  struct Part {
    int sequence;
    int first;  // position
    int tokens;
  };
  const std::vector<std::vector<Part>> steps = {
      {{0, 0, 300}}, {{1, 413, 129}}, {{0, 0, 40}, {2, 100, 60}, {1, 3, 100}, {0, 590, 1}, {2, 0, 70}}};
  const std::int64_t context = 640;
  for (const auto& [heads, kv_heads, dim] :
       {std::tuple<int, int, std::int64_t>{4, 2, 64}, {6, 1, 128}, {3, 3, 128}})
    for (const int window : {0, 70})
      for (const std::vector<Part>& step : steps) {
        std::vector<std::int32_t> slots;
        std::vector<std::int32_t> at;
        for (const Part& part : step)
          for (int i = 0; i < part.tokens; ++i) slots.push_back(part.sequence), at.push_back(part.first + i);
        const auto tokens = static_cast<std::int64_t>(at.size());
        const OwnedTensor keys =
            stored_as(NumberType::bf16, random_floats({3, context, kv_heads * dim}, 1).view());
        const OwnedTensor values =
            stored_as(NumberType::bf16, random_floats({3, context, kv_heads * dim}, 2).view());
        const OwnedTensor q = random_floats({tokens, heads, dim}, 3);
        const OwnedTensor sequences = ids(slots);
        const OwnedTensor positions = ids(at);
        const OwnedTensor y = poisoned({tokens, heads, dim});
        const auto op = [&, kv = kv_heads](const Tensor& query, const Tensor& k, const Tensor& v,
                                           const Tensor& s, const Tensor& p, const Tensor& to) {
          return Attention{.q = query,
                           .k_cache = k,
                           .v_cache = v,
                           .sequences = s,
                           .positions = p,
                           .y = to,
                           .kv_heads = kv,
                           .scale = 0.3F,
                           .window = window,
                           .runs = static_cast<int>(step.size())};
        };
        run(cpu_, op(q.view(), keys.view(), values.view(), sequences.view(), positions.view(), y.view()));
        for (const Path& path : kPaths) {
          set_kernel_path(path.path);
          const OwnedTensor poison = poisoned({tokens, heads, dim});
          const Tensor gy = there(poison.view());
          run(gpu(), op(there(q.view()), there(keys.view()), there(values.view()), there(sequences.view()),
                        there(positions.view()), gy));
          expect_near(gy, y.view(), path.path.most_split_tokens > 0 ? 5e-5 : 6e-3,
                      std::string(path.name) + ", " + std::to_string(heads) + " heads of " +
                          std::to_string(dim) + ", window " + std::to_string(window) + ", " +
                          std::to_string(tokens) + " tokens");
        }
      }
}

TEST_F(CudaPromptAttention, LatentAttentionOfRuns) {
  const std::int64_t context = 200;
  for (const int heads : {3, 16}) {
    std::vector<std::int32_t> slots;
    std::vector<std::int32_t> at;
    for (const auto& [sequence, first, tokens] :
         {std::tuple<int, int, int>{0, 0, 45}, {1, 130, 70}, {0, 45, 2}})
      for (int i = 0; i < tokens; ++i) slots.push_back(sequence), at.push_back(first + i);
    const auto tokens = static_cast<std::int64_t>(at.size());
    const OwnedTensor cache = stored_as(NumberType::bf16, random_floats({2, context, 576}, 1).view());
    const OwnedTensor q_latent = random_floats({tokens, heads, 512}, 2);
    const OwnedTensor q_rope = random_floats({tokens, heads, 64}, 3);
    const OwnedTensor sequences = ids(slots);
    const OwnedTensor positions = ids(at);
    const OwnedTensor y = poisoned({tokens, heads, 512});
    const auto op = [&](const Tensor& latent, const Tensor& rope, const Tensor& rows, const Tensor& s,
                        const Tensor& p, const Tensor& to) {
      return MlaAttention{.q_latent = latent,
                          .q_rope = rope,
                          .cache = rows,
                          .sequences = s,
                          .positions = p,
                          .y = to,
                          .scale = 0.1F,
                          .runs = 3};
    };
    const Tensor gy = there(y.view());
    run(cpu_, op(q_latent.view(), q_rope.view(), cache.view(), sequences.view(), positions.view(), y.view()));
    run(gpu(), op(there(q_latent.view()), there(q_rope.view()), there(cache.view()), there(sequences.view()),
                  there(positions.view()), gy));
    expect_near(gy, y.view(), 6e-3, std::to_string(heads) + " heads");
  }
}

}  // namespace
}  // namespace moetune

#endif
