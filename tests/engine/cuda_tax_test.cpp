// The account of a GPU's steps: every kernel of a graph belongs to the op that it was captured for, and what
// is put in is found. How long anything takes is not looked at.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/option_rules.h"
#include "engine/sync_tax/account.h"
#include "engine/sync_tax/host_calls.h"
#include "engine/sync_tax/injection.h"
#include "engine/sync_tax/step_recorder.h"
#include "kernels/device.h"
#include "kernels/device_trace.h"
#include "tests/support/golden.h"

#if MOETUNE_HAS_CUDA

namespace moetune::testing {
namespace {

constexpr int kSteps = 6;

struct Settings {
  std::string checkpoint;
  bool graph;
};

class CudaTax : public ::testing::TestWithParam<Settings> {
 protected:
  void SetUp() override {
    if (Cuda::count() == 0) GTEST_SKIP() << "no GPU: nothing of this was tested on one";
    if (const std::string problem = DeviceTrace::why_not(); !problem.empty())
      GTEST_SKIP() << "no CUPTI, nothing was recorded: " << problem;
    model_ = golden(GetParam().checkpoint);
    options_ = default_options(DeviceKind::cuda);
    options_.expert_quant = NumberType::bf16;
    options_.cuda_graph = GetParam().graph;
    engine_ = std::make_unique<Engine>(
        model_.checkpoint, options_,
        EngineLimits{
            .sequences = 1, .context_tokens = static_cast<int>(model_.ids.size()), .step_tokens = 8});
  }

  std::vector<std::int32_t> decode() {
    engine_->prefill(0, std::span(model_.ids).first(8));
    const StepToken first{.id = model_.ids[9], .sequence = 0, .position = 8};
    return engine_->decode({.first = {&first, 1}, .steps = kSteps}).ids;
  }

  // Of one recorded run, behind one that captured the graphs.
  void record(DeviceTrace& trace, StepRecorder& recorder) {
    engine_->record_steps(&recorder);
    decode();
    recorder.clear();
    trace.start();
    ids_ = decode();
    records_ = trace.finish();
    engine_->record_steps(nullptr);
    unlabelled_ = recorder.take(records_);
  }

  std::map<Row, int> kernels_by_row() const {
    std::map<Row, int> count;
    for (const DeviceRecord& record : records_)
      if (record.kind == DeviceRecord::Kind::kernel && record.label != 0)
        ++count[DeviceLabel::unpacked(record.label).row];
    return count;
  }

  Golden model_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::vector<DeviceRecord> records_;
  std::vector<std::int32_t> ids_;
  std::int64_t unlabelled_ = 0;
};

TEST_P(CudaTax, EveryKernelBelongsToAnOpOfItsLayer) {
  const std::vector<std::int32_t> plain = decode();
  DeviceTrace trace;
  StepRecorder recorder(&DeviceTrace::now_ns, trace.labels());
  record(trace, recorder);
  EXPECT_EQ(ids_, plain) << "recording changes no token";
  EXPECT_EQ(unlabelled_, 0);
  ASSERT_EQ(recorder.steps().size(), 1U + kSteps);
  EXPECT_EQ(recorder.steps().front().phase, Phase::prefill);
  const ModelSpec& spec = engine_->spec();
  for (const RecordedStep& step : recorder.steps()) {
    EXPECT_LT(step.begin_ns, step.end_ns);
    for (int layer = 0; layer < spec.layers; ++layer) {
      std::set<Row> rows;
      for (const StepInterval& interval : recorder.intervals_of(step))
        if (interval.layer == layer && interval.activity == Activity::compute) rows.insert(interval.row);
      const bool routes = spec.moe_layers[static_cast<std::size_t>(layer)];
      EXPECT_TRUE(rows.contains(Row::attention)) << layer;
      EXPECT_EQ(rows.contains(Row::router), routes) << layer;
      EXPECT_EQ(rows.contains(Row::gate_up), routes) << layer;
      EXPECT_EQ(rows.contains(Row::down_combine), routes) << layer;
      EXPECT_EQ(rows.contains(Row::dense), !routes) << layer;
      // Where sizes and types allow, steps of one token have them in the kernels of the routed ones (MoeFfn).
      const bool has_shared = routes && spec.shared_experts > 0;
      if (step.tokens > 1 || !has_shared) {
        EXPECT_EQ(rows.contains(Row::shared), has_shared) << layer;
      }
    }
    const Account one = account(step.begin_ns, step.end_ns, recorder.intervals_of(step));
    EXPECT_GT(one.row_ns[static_cast<std::size_t>(Row::head)], 0);
    EXPECT_EQ(one.exposed_ns[static_cast<std::size_t>(Part::communication)], 0);
    EXPECT_EQ(one.exposed_ns[static_cast<std::size_t>(Part::expert_loading)], 0);
  }
}

TEST_P(CudaTax, LengthsAloneAreThoseOfTheDevicesClock) {
  StepRecorder recorder(StepRecorder::Detail::steps);
  engine_->record_steps(&recorder);
  decode();
  engine_->record_steps(nullptr);
  ASSERT_EQ(recorder.steps().size(), 1U + kSteps);
  for (const RecordedStep& step : recorder.steps()) {
    EXPECT_EQ(step.count, 0U);
    EXPECT_GT(step.end_ns, step.begin_ns);
  }
}

// Counted, not timed: what is put in is there, and belongs where it was put.
TEST_P(CudaTax, LossesThatArePutInAreRecordedWhereTheyBelong) {
  DeviceTrace trace;
  StepRecorder recorder(&DeviceTrace::now_ns, trace.labels());
  record(trace, recorder);
  const std::vector<std::int32_t> plain = ids_;
  const std::map<Row, int> before = kernels_by_row();
  const int moe_layers = engine_->spec().moe_layer_count();

  engine_->inject({.expert_reads = 2, .router_spin_ns = 1'000});
  record(trace, recorder);
  EXPECT_EQ(ids_, plain);
  std::map<Row, int> after = kernels_by_row();
  EXPECT_EQ(after.at(Row::router) - before.at(Row::router), (1 + kSteps) * moe_layers);
  EXPECT_GT(after.at(Row::gate_up), before.at(Row::gate_up));
  EXPECT_EQ(after.at(Row::attention), before.at(Row::attention));
  EXPECT_EQ(after.at(Row::head), before.at(Row::head));

  engine_->inject({.empty_ops = 100});
  record(trace, recorder);
  int empty = 0;
  for (const DeviceRecord& one : records_)
    empty += one.label != 0 && DeviceLabel::unpacked(one.label).activity == Activity::nothing ? 1 : 0;
  EXPECT_EQ(empty, 100 * (1 + kSteps));
  engine_->inject({.host_stall_ns = 50'000});
  record(trace, recorder);
  EXPECT_EQ(kernels_by_row(), before);
  // What the device waits for is launched in pieces: of 1, 3 and 12 layers.
  const auto launches = std::ranges::count_if(records_, [](const DeviceRecord& one) {
    return one.kind == DeviceRecord::Kind::host_call && is_graph_launch(one.name);
  });
  if (GetParam().graph && engine_->spec().layers > 1) {
    EXPECT_GE(launches, 2 * (kSteps - 1));
  }
  for (const RecordedStep& step : std::span(recorder.steps()).subspan(2)) {
    const Account one = account(step.begin_ns, step.end_ns, recorder.intervals_of(step));
    EXPECT_GE(one.exposed_ns[static_cast<std::size_t>(Part::synchronisation)], 50'000);
  }
}

std::vector<Settings> settings() {
  std::vector<Settings> all;
  for (const std::string& name : golden_names())
    for (const bool graph : {true, false}) all.push_back({name, graph});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CudaTax, ::testing::ValuesIn(settings()), [](const auto& one) {
  return one.param.checkpoint + (one.param.graph ? "_graph" : "_ops");
});

}  // namespace
}  // namespace moetune::testing

#endif
