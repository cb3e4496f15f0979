// A recorder of a GPU's steps: scopes become labels, and what the device did joins what the host computed.
#include "engine/sync_tax/step_recorder.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/device_records.h"

namespace moetune {
namespace {

std::int64_t fake_ns = 0;
std::int64_t read_fake_clock() { return fake_ns += 10; }

// The scopes of a step, as the decoder opens them, while a graph is captured.
TEST(StepRecorderOfAGpu, ScopesLabelWhatIsCapturedInThem) {
  TraceLabels labels;
  StepRecorder recorder(&read_fake_clock, labels);
  fake_ns = 0;
  std::uint64_t node = 0;
  const auto captured = [&] {
    labels.node_made(++node);
    return DeviceLabel::unpacked(labels.of(node, 0));
  };
  recorder.enter_layer(3);
  {
    OpScope router(&recorder, Activity::compute, Row::router);
    EXPECT_EQ(captured(), (DeviceLabel{Activity::compute, Row::router, 3, Mark::none}));
    {
      const OpScope load(&recorder, Activity::expert_copy);
      EXPECT_EQ(captured(), (DeviceLabel{Activity::expert_copy, Row::other, 3, Mark::none}));
    }
    EXPECT_EQ(captured().row, Row::router);
  }
  {
    OpScope experts(&recorder, Activity::compute, Row::gate_up);
    EXPECT_EQ(captured().row, Row::gate_up);
    experts.go_on_with(Row::down_combine);
    EXPECT_EQ(captured(), (DeviceLabel{Activity::compute, Row::down_combine, 3, Mark::none}));
  }
  recorder.enter_layer(-1);
  {
    const MarkScope mark(&recorder, Mark::step_ends);
    const OpScope last(&recorder, Activity::compute, Row::other);
    EXPECT_EQ(captured(), (DeviceLabel{Activity::compute, Row::other, -1, Mark::step_ends}));
  }
  EXPECT_EQ(labels.current(), 0U);
  EXPECT_EQ(fake_ns, 0);  // no clock is read for what the device times
}

TEST(StepRecorderOfAGpu, TakesWhatTheDeviceDidAndWhatTheHostComputed) {
  TraceLabels labels;
  fake_ns = 0;
  StepRecorder recorder(&read_fake_clock, labels);
  recorder.begin_step(Phase::prefill, 4);  // 10
  {
    const HostScope host(&recorder, Activity::compute, Row::router);  // 20 .. 30
    EXPECT_EQ(DeviceLabel::unpacked(labels.current()).row, Row::router);
  }
  EXPECT_EQ(labels.current(), 0U);
  recorder.end_step();  // 40
  const std::vector<std::int64_t> lengths_ns = {5};
  recorder.add_decoded(2, lengths_ns);
  EXPECT_EQ(recorder.steps().back().end_ns - recorder.steps().back().begin_ns, 5);
  const std::vector<DeviceRecord> records = {kernel(32, 36, op(Row::attention)),
                                             kernel(50, 51, marked(Mark::run_begins)),
                                             kernel(51, 57, marked(Mark::step_ends))};
  EXPECT_EQ(recorder.take(records), 0);
  ASSERT_EQ(recorder.steps().size(), 2U);
  const auto account_of_step = [&](std::size_t i) {
    const RecordedStep& step = recorder.steps()[i];
    return account(step.begin_ns, step.end_ns, recorder.intervals_of(step));
  };
  EXPECT_EQ(ns(account_of_step(0), Part::router), 10);
  EXPECT_EQ(ns(account_of_step(0), Row::attention), 4);
  EXPECT_EQ(recorder.steps()[1].tokens, 2);
  EXPECT_EQ(account_of_step(1).length_ns, 6);
}

}  // namespace
}  // namespace moetune
