// The recorder under a clock that moves only when it is read or told to: no test here depends on how fast the
// machine is.
#include "engine/sync_tax/step_recorder.h"

#include <memory>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "engine/checkpoint.h"
#include "engine/engine.h"
#include "engine/facts/error.h"
#include "engine/sync_tax/account.h"
#include "tests/support/source_dir.h"

namespace moetune {
namespace {

constexpr std::size_t at(Part part) { return static_cast<std::size_t>(part); }
constexpr std::size_t at(Row row) { return static_cast<std::size_t>(row); }

std::int64_t fake_ns = 0;
std::int64_t read_fake_clock() { return fake_ns += 10; }

class RecordedEngine : public ::testing::Test {
 protected:
  void SetUp() override { fake_ns = 0; }

  Engine engine(const EngineOptions& options = {}) const {
    return {checkpoint_, options, {.sequences = 1, .context_tokens = 32, .step_tokens = 16}};
  }

  // Three decoded tokens after a prompt of four; the account of each step.
  std::vector<Account> run(Engine& engine) {
    recorder_.clear();
    engine.record_steps(&recorder_);
    const std::vector<std::int32_t> prompt = {65, 66, 67, 68};
    engine.prefill(0, prompt);
    const StepToken first{.id = 69, .sequence = 0, .position = 4};
    engine.decode({.first = {&first, 1}, .steps = 3});
    engine.record_steps(nullptr);
    std::vector<Account> accounts;
    for (const RecordedStep& step : recorder_.steps())
      accounts.push_back(account(step.begin_ns, step.end_ns, recorder_.intervals_of(step)));
    return accounts;
  }

  std::shared_ptr<const Checkpoint> checkpoint_ = open_checkpoint(source_dir() + "/engine/models/tiny-moe");
  StepRecorder recorder_{StepRecorder::Detail::ops, &read_fake_clock};
};

TEST_F(RecordedEngine, EveryStepHasItsPhaseAndEveryLayerItsRows) {
  Engine one = engine();
  const std::vector<Account> accounts = run(one);
  ASSERT_EQ(accounts.size(), 4U);
  EXPECT_EQ(recorder_.steps()[0].phase, Phase::prefill);
  EXPECT_EQ(recorder_.steps()[0].tokens, 4);
  for (std::size_t step = 1; step < 4; ++step) EXPECT_EQ(recorder_.steps()[step].phase, Phase::decode);
  const ModelSpec& spec = one.spec();
  for (const RecordedStep& step : recorder_.steps())
    for (int layer = 0; layer < spec.layers; ++layer) {
      std::set<Row> rows;
      for (const StepInterval& interval : recorder_.intervals_of(step))
        if (interval.layer == layer && interval.activity == Activity::compute) rows.insert(interval.row);
      EXPECT_TRUE(rows.contains(Row::attention));
      EXPECT_EQ(rows.contains(Row::router),
                static_cast<bool>(spec.moe_layers[static_cast<std::size_t>(layer)]));
      EXPECT_EQ(rows.contains(Row::gate_up), rows.contains(Row::router));
      EXPECT_EQ(rows.contains(Row::down_combine), rows.contains(Row::router));
      EXPECT_EQ(rows.contains(Row::shared), rows.contains(Row::router) && spec.shared_experts > 0);
    }
  for (const Account& account : accounts) EXPECT_GT(account.row_ns[at(Row::head)], 0);
}

TEST_F(RecordedEngine, RecordingChangesNoToken) {
  Engine one = engine();
  Engine other = engine();
  const StepToken first{.id = 69, .sequence = 0, .position = 0};
  one.record_steps(&recorder_);
  EXPECT_EQ(one.decode({.first = {&first, 1}, .steps = 8}).ids,
            other.decode({.first = {&first, 1}, .steps = 8}).ids);
}

TEST_F(RecordedEngine, NothingIsRecordedOnceItIsTurnedOff) {
  Engine one = engine();
  run(one);
  const std::size_t steps = recorder_.steps().size();
  const std::int64_t reads = fake_ns;
  const StepToken first{.id = 69, .sequence = 0, .position = 0};
  one.decode({.first = {&first, 1}, .steps = 2});
  EXPECT_EQ(recorder_.steps().size(), steps);
  EXPECT_EQ(fake_ns, reads);  // the clock is not even read
}

// 20 us more in every router: that part moves by just that, the others not at all.
TEST_F(RecordedEngine, ASpinInTheRouterIsRouterTime) {
  Engine one = engine();
  one.force_routing([](int, std::span<std::int32_t> ids, int tokens, int k) {
    for (int token = 0; token < tokens; ++token)
      for (int i = 0; i < k; ++i) ids[static_cast<std::size_t>(token * k + i)] = i;
  });
  const std::vector<Account> before = run(one);
  one.force_routing([](int, std::span<std::int32_t> ids, int tokens, int k) {
    fake_ns += 20'000;
    for (int token = 0; token < tokens; ++token)
      for (int i = 0; i < k; ++i) ids[static_cast<std::size_t>(token * k + i)] = i;
  });
  const std::vector<Account> after = run(one);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t step = 0; step < after.size(); ++step)
    for (std::size_t part = 0; part < kParts; ++part)
      EXPECT_EQ(after[step].exposed_ns[part] - before[step].exposed_ns[part],
                part == at(Part::router) ? 20'000 * one.spec().moe_layer_count() : 0)
          << kPartNames[part];
}

// What an observer takes while the layer waits for the host is synchronisation.
TEST_F(RecordedEngine, AStallOfTheHostIsSynchronisation) {
  Engine one = engine();
  one.observe_routing([](int, auto, auto, int, int) {});
  const std::vector<Account> before = run(one);
  one.observe_routing([](int, auto, auto, int, int) { fake_ns += 200'000; });
  const std::vector<Account> after = run(one);
  for (std::size_t step = 0; step < after.size(); ++step)
    for (std::size_t part = 0; part < kParts; ++part)
      EXPECT_EQ(after[step].exposed_ns[part] - before[step].exposed_ns[part],
                part == at(Part::synchronisation) ? 200'000 * one.spec().moe_layer_count() : 0)
          << kPartNames[part];
}

TEST_F(RecordedEngine, MissesAreExpertLoading) {
  EngineOptions half;
  half.expert_cache_fraction = 0.5;
  Engine resident = engine();
  Engine cached = engine(half);
  for (const Account& account : run(resident)) EXPECT_EQ(account.records[at(Part::expert_loading)], 0);
  const std::vector<Account> accounts = run(cached);
  ASSERT_GT(cached.stats().expert_misses, 0);
  std::int64_t loading_ns = 0;
  for (const Account& account : accounts) loading_ns += account.exposed_ns[at(Part::expert_loading)];
  EXPECT_GT(loading_ns, 0);
}

TEST_F(RecordedEngine, RanksCommunicate) {
  EngineOptions two;
  two.tensor_parallel = 2;
  Engine ranks = engine(two);
  const std::vector<Account> accounts = run(ranks);
  ASSERT_EQ(accounts.size(), 4U);
  for (std::size_t step = 0; step < accounts.size(); ++step) {
    EXPECT_EQ(recorder_.steps()[step].phase, step == 0 ? Phase::prefill : Phase::decode);
    EXPECT_EQ(accounts[step].records[at(Part::communication)], 2 * ranks.spec().layers);
  }
}

TEST_F(RecordedEngine, StepsAloneHoldNoIntervals) {
  StepRecorder lengths(StepRecorder::Detail::steps, &read_fake_clock);
  Engine one = engine();
  one.record_steps(&lengths);
  const StepToken first{.id = 69, .sequence = 0, .position = 0};
  one.decode({.first = {&first, 1}, .steps = 5});
  ASSERT_EQ(lengths.steps().size(), 5U);
  for (const RecordedStep& step : lengths.steps()) {
    EXPECT_EQ(step.count, 0U);
    EXPECT_EQ(step.end_ns - step.begin_ns, 10);  // two reads, one after the other
  }
}

TEST(StepRecorder, TheCostOfARecordIsMeasured) {
  const RecordingCost cost = recording_cost();
  EXPECT_GE(cost.inside_ns, 0.0);
  EXPECT_GE(cost.outside_ns, 0.0);
  EXPECT_GT(cost.inside_ns + cost.outside_ns, 0.0);
}

}  // namespace
}  // namespace moetune
