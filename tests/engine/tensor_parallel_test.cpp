// Several ranks give the logits of one, up to the order of summation: heads shared or replicated, quantized
// or not.
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "engine/facts/error.h"
#include "engine/rank_threads.h"
#include "kernels/collective.h"
#include "kernels/weight_matrix.h"
#include "tests/support/cache_folder.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/temporary_directory.h"

namespace moetune::testing {
namespace {

constexpr double kTolerance = 1e-4;

// A checkpoint of a layout that ranks can share, with tokens to run. It stays on disk for experts read on
// demand.
class Splittable {
 public:
  explicit Splittable(const nlohmann::json& config) {
    write_random_checkpoint(folder_.path().string(), config, 7);
    model.checkpoint = open_checkpoint(folder_.path().string());
    std::mt19937 random(3);
    for (int i = 0; i < 40; ++i)
      model.ids.push_back(
          static_cast<std::int32_t>(random() % static_cast<unsigned>(model.checkpoint->spec().vocabulary)));
  }
  Golden model;

 private:
  TemporaryDirectory folder_;
};

double difference_between(const Golden& model, const Settings& first, const Settings& second) {
  Engine a = engine_over(model, first);
  Engine b = engine_over(model, second);
  const std::vector<float> expected = teacher_forced(a, model.ids, model.ids.size());
  const std::vector<float> logits = teacher_forced(b, model.ids, model.ids.size());
  expect_identical(teacher_forced(b, model.ids, 1), logits, "decode and prefill on several ranks");
  return largest_difference(logits, expected);
}

TEST(TensorParallel, TinyMoeOnTwoRanks) {
  const double difference = difference_between(golden("tiny_moe"), {}, {{"tensor_parallel", "2"}});
  EXPECT_LE(difference, kTolerance);
  EXPECT_GT(difference, 0.0) << "not a single rounding differs: was it split at all?";
}

TEST(TensorParallel, LatentAttentionOnTwoAndFourRanks) {
  const Splittable mla(splittable_mla());
  for (const char* ranks : {"2", "4"})
    EXPECT_LE(difference_between(mla.model, {}, {{"tensor_parallel", ranks}}), kTolerance) << ranks;
}

// Two key/value heads: four ranks hold each of them twice, eight ranks four times.
TEST(TensorParallel, GroupedHeadsSplitAndReplicated) {
  const Splittable gqa(splittable_gqa());
  for (const char* ranks : {"2", "4", "8"})
    EXPECT_LE(difference_between(gqa.model, {}, {{"tensor_parallel", ranks}}), kTolerance) << ranks;
}

// Were the scales of a split row its own, int8 would be off by a hundredth, not by a rounding.
TEST(TensorParallel, QuantizedNumbersAreThoseOfTheWholeMatrix) {
  const CacheFolder folder;
  const Splittable mla(splittable_mla());
  const Splittable gqa(splittable_gqa());
  for (const Golden* model : {&mla.model, &gqa.model})
    for (const char* type : {"int8", "int4_g32", "bf16"}) {
      const Settings one{{"expert_quant", type}, {"dense_quant", "int8"}};
      Settings two = one;
      two.emplace_back("tensor_parallel", "2");
      EXPECT_LE(difference_between(*model, one, two), kTolerance)
          << model->checkpoint->spec().architecture << " " << type;
      EXPECT_GT(difference_between(*model, {}, one), 10 * kTolerance) << "not quantized at all? " << type;
    }
}

TEST(TensorParallel, CachedExpertsOnTwoRanksEqualResidentOnesOnTwo) {
  const CacheFolder folder;
  const Splittable mla(splittable_mla());
  for (const char* type : {"checkpoint", "int8", "int4_g32"}) {
    Engine resident = engine_over(mla.model, {{"tensor_parallel", "2"}, {"expert_quant", type}});
    Engine cached =
        engine_over(mla.model, {{"tensor_parallel", "2"}, {"expert_quant", type}, {"expert_cache", "0.5"}});
    expect_identical(teacher_forced(cached, mla.model.ids, 1), teacher_forced(resident, mla.model.ids, 1),
                     type);
    const RunStats stats = cached.stats();
    EXPECT_GT(stats.expert_misses, 0);
    EXPECT_GT(stats.communication_seconds, 0.0);
    const ExpertLayout half = ExpertLayout::of(
        options_with({{"expert_quant", type}}).expert_quant.value_or(NumberType::bf16), 72, 32);
    EXPECT_EQ(stats.expert_bytes_read, 2 * half.bytes * stats.expert_misses)
        << "both ranks read their halves";
  }
}

// The spill file of rank 2 ends too early. Rank 1, which is well, must not wait for it for ever; once the
// file is whole again the same engine goes on.
TEST(TensorParallel, ARankThatFailsStopsTheOthersAndTheEngineRecovers) {
  const CacheFolder folder;
  const Splittable mla(splittable_mla());
  const Settings settings{{"tensor_parallel", "2"}, {"expert_quant", "int8"}, {"expert_cache", "0.5"}};
  Engine engine = engine_over(mla.model, settings);
  const std::vector<float> expected = teacher_forced(engine, mla.model.ids, 1);
  std::string second;
  for (const std::string& path : folder.files())
    if (path.find("2of2") != std::string::npos) second = path;
  ASSERT_FALSE(second.empty());
  const std::string bytes = read_bytes(second);
  std::filesystem::resize_file(second, 4096);
  engine.drop_expert_cache();
  const std::string message =
      message_of<std::runtime_error>([&] { teacher_forced(engine, mla.model.ids, 1); });
  EXPECT_TRUE(has_text(message, second));
  EXPECT_TRUE(has_text(message, "too early"));
  {
    std::ofstream file(second, std::ios::binary | std::ios::in | std::ios::out);
    file << bytes;
  }
  EXPECT_THROW(engine.forward(step_of(mla.model.ids, 1, 2)), InputError)
      << "the contexts of the failed step were kept";
  expect_identical(teacher_forced(engine, mla.model.ids, 1), expected, "after the file was repaired");
}

TEST(RankThreads, RethrowTheFirstFailureAndWakeTheOthers) {
  RankThreads threads(3);
  LocalGroup group(3);
  std::vector<float> values(3, 1.0F);
  const auto reduce = [&](int rank) {
    Cpu cpu(1);
    run(cpu, AllReduce{.x = Tensor(&values[static_cast<std::size_t>(rank)], NumberType::f32, {1}),
                       .group = &group,
                       .rank = rank});
  };
  threads.run(reduce, [&] { group.abort(); });
  EXPECT_EQ(values, std::vector<float>(3, 3.0F));
  const std::string message = message_of<std::runtime_error>([&] {
    threads.run(
        [&](int rank) {
          if (rank == 1) throw std::runtime_error("rank 1 has no disk");
          reduce(rank);
        },
        [&] { group.abort(); });
  });
  EXPECT_EQ(message, "rank 1 has no disk");
}

}  // namespace
}  // namespace moetune::testing
