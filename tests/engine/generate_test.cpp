// Generation: greedy is the largest logit, seeds reproduce, neighbours change nothing.
#include "engine/generate.h"

#include "engine/facts/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace moetune::testing {
namespace {

using Prompts = std::vector<std::vector<std::int32_t>>;

Prompts prompts_of(const Golden& model) {
  return {{model.ids.begin(), model.ids.begin() + 12},
          {model.ids.begin() + 3, model.ids.begin() + 8},
          {model.ids[20]}};
}

TEST(Generate, GreedyTakesTheLargestLogit) {
  const Golden model = golden("qwen3_moe_shards");
  Engine engine = engine_over(model, {}, 3);
  const Prompts prompts = prompts_of(model);
  const Generated generated = generate(engine, prompts, 9);
  EXPECT_EQ(generated.prefill_seconds.size(), 3U);
  EXPECT_EQ(generated.step_seconds.size(), 8U);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    ASSERT_EQ(generated.ids[i].size(), 9U);
    std::vector<std::int32_t> all = prompts[i];
    all.insert(all.end(), generated.ids[i].begin(), generated.ids[i].end());
    const std::vector<float> logits =
        teacher_forced(engine, std::span(all).first(all.size() - 1), all.size());
    const auto vocabulary = static_cast<std::size_t>(engine.spec().vocabulary);
    for (std::size_t n = prompts[i].size(); n < all.size(); ++n) {
      const auto row = std::span(logits).subspan((n - 1) * vocabulary, vocabulary);
      EXPECT_EQ(all[n], std::ranges::max_element(row) - row.begin()) << "prompt " << i << ", token " << n;
    }
  }
}

TEST(Generate, SeedsReproduceAndNeighboursChangeNothing) {
  const Golden model = golden("deepseek_v3_yarn");
  Engine engine = engine_over(model, {}, 3);
  const Prompts prompts = prompts_of(model);
  const Sampling sampling{.temperature = 1.0F, .seed = 5};
  const Generated together = generate(engine, prompts, 20, sampling);
  EXPECT_EQ(generate(engine, prompts, 20, sampling).ids, together.ids);
  EXPECT_NE(generate(engine, prompts, 20, {.temperature = 1.0F, .seed = 6}).ids, together.ids);
  EXPECT_NE(generate(engine, prompts, 20).ids, together.ids);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    EXPECT_EQ(generate(engine, Prompts{prompts[i]}, 20, sampling).ids[0], together.ids[i]) << i;
}

TEST(Generate, RefusesWhatDoesNotFit) {
  const Golden model = golden("mixtral");
  Engine engine = engine_over(model);
  const auto refusal = [&](const Prompts& prompts, int new_tokens) {
    return message_of<InputError>([&] { generate(engine, prompts, new_tokens); });
  };
  EXPECT_TRUE(has_text(refusal({}, 3), "prompts: 0"));
  EXPECT_TRUE(has_text(refusal({{1}, {2}}, 3), "prompts: 2 (accepted: 1 .. 1"));
  EXPECT_TRUE(has_text(refusal({{}}, 3), "prompt: 0 tokens"));
  EXPECT_TRUE(has_text(refusal({{1}}, 0), "new tokens: 0"));
  EXPECT_TRUE(has_text(refusal({{1, 2}}, 60), "2 tokens and 60 new ones"));
  EXPECT_TRUE(has_text(refusal({{999}}, 2), "id: 999"));
  EXPECT_NO_THROW(generate(engine, Prompts{{1, 2}}, 59));
}

}  // namespace
}  // namespace moetune::testing
