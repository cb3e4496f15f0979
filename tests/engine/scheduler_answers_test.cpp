// The knobs of a load say who runs when and what is read again, never what comes out: the same bits as one
// request alone.
#include "engine/scheduler.h"

#include <map>

#include "kernels/parallel_for.h"
#include "tests/support/golden.h"

namespace moetune::testing {
namespace {

constexpr int sequences = 3;

// Three conversations: a prompt with an answer each, then the same with more behind it.
std::vector<ServedRequest> requests_over(std::span<const std::int32_t> ids) {
  std::vector<ServedRequest> requests;
  for (const int more : {0, 6})
    for (const int begin : {0, 5, 11})
      requests.push_back({.text = ids.subspan(static_cast<std::size_t>(begin)),
                          .prompt_tokens = 9 + more,
                          .answer_tokens = 4});
  return requests;
}

// The logits of every answer, by request; runs everything through forward(), so that each step's can be seen.
std::map<int, std::vector<float>> answers(Engine& engine, std::span<const ServedRequest> requests) {
  Scheduler scheduler(engine.limits(), engine.options().prefix_cache);
  for (const ServedRequest& request : requests) scheduler.add(request);
  std::map<int, std::vector<float>> logits;
  const auto vocabulary = static_cast<std::size_t>(engine.spec().vocabulary);
  while (!scheduler.is_idle()) {
    const Batch batch = scheduler.next(1);
    const std::span<const float> rows = engine.forward(batch.tokens);
    std::size_t row = 0;
    for (const ServedToken& token : scheduler.ran(batch)) {
      const std::span<const float> one = rows.subspan(vocabulary * row++, vocabulary);
      logits[token.request].insert(logits[token.request].end(), one.begin(), one.end());
    }
  }
  return logits;
}

class LoadKnobs : public ::testing::Test {
 protected:
  Golden golden_ = golden("tiny_moe");
  std::vector<ServedRequest> requests_ = requests_over(golden_.ids);
};

TEST_F(LoadKnobs, ChangeNoBitOfAnyAnswer) {
  std::map<int, std::vector<float>> alone;
  for (int i = 0; i < static_cast<int>(requests_.size()); ++i) {
    Engine engine = engine_over(golden_);
    alone[i] = answers(engine, std::span(requests_).subspan(static_cast<std::size_t>(i), 1))[0];
  }
  for (const Settings& settings :
       std::vector<Settings>{{},
                             {{"max_sequences", "1"}},
                             {{"max_sequences", "2"}},
                             {{"prefix_cache", "off"}},
                             {{"prefill_chunk", "4"}},
                             {{"cpu_threads", "1"}},
                             {{"max_sequences", "1"}, {"prefix_cache", "off"}, {"prefill_chunk", "5"}}}) {
    Engine engine = engine_over(golden_, settings, sequences);
    const auto together = answers(engine, requests_);
    ASSERT_EQ(together.size(), alone.size());
    for (const auto& [request, logits] : together)
      expect_identical(
          logits, alone[request],
          settings.empty() ? "defaults" : settings.front().first + "=" + settings.front().second);
  }
}

TEST_F(LoadKnobs, PrefixCacheSavesWhatWasReadBefore) {
  Engine kept = engine_over(golden_, {}, sequences);
  answers(kept, requests_);
  Engine again = engine_over(golden_, {{"prefix_cache", "off"}}, sequences);
  answers(again, requests_);
  EXPECT_EQ(again.stats().tokens, 3 * (9 + 3) + 3 * (15 + 3));
  EXPECT_EQ(kept.stats().tokens, again.stats().tokens - 3 * (9 + 3))
      << "the second three begin behind the first three";
}

TEST_F(LoadKnobs, MaxSequencesSizesTheKvCache) {
  Engine all = engine_over(golden_, {}, sequences);
  Engine one = engine_over(golden_, {{"max_sequences", "1"}}, sequences);
  EXPECT_EQ(all.limits().sequences, 3);
  EXPECT_EQ(one.limits().sequences, 1);
  EXPECT_LT(one.stats().device_bytes, all.stats().device_bytes);
  ASSERT_TRUE(all.reconfigure(options_with({{"max_sequences", "2"}})));
  EXPECT_EQ(all.limits().sequences, 2);
}

TEST_F(LoadKnobs, CpuThreadsAreThoseThatCompute) {
  Engine engine = engine_over(golden_, {{"cpu_threads", "1"}});
  EXPECT_EQ(engine.stats().cpu_threads, 1);
  ASSERT_TRUE(engine.reconfigure(options_with({})));
  EXPECT_EQ(engine.stats().cpu_threads, usable_cores());
}

}  // namespace
}  // namespace moetune::testing
