// Records as a GPU would give them, written down by hand: which step and which part of it they become.
#include "engine/sync_tax/device_steps.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/support/device_records.h"

namespace moetune {
namespace {

TEST(DeviceLabel, IsTheSameAfterPacking) {
  for (const Activity activity : {Activity::compute, Activity::collective, Activity::expert_copy,
                                  Activity::host_wait, Activity::nothing})
    for (const Row row : {Row::router, Row::attention, Row::other})
      for (const int layer : {-1, 0, 60, 4094})
        for (const Mark mark : {Mark::none, Mark::run_begins, Mark::step_ends, Mark::beside}) {
          const DeviceLabel label{activity, row, layer, mark};
          EXPECT_NE(label.packed(), 0U);
          EXPECT_EQ(DeviceLabel::unpacked(label.packed()), label);
        }
  static_assert(DeviceLabel{.row = Row::router, .layer = -1}.packed() != 0);
}

// Two tokens of a run, their records in no order.
TEST(DeviceSteps, StepsEndWithTheirMarkedKernels) {
  const std::vector<DeviceRecord> records = {
      kernel(500, 560, op(Row::attention)),    kernel(100, 110, marked(Mark::run_begins)),
      kernel(120, 200, op(Row::attention)),    kernel(205, 230, op(Row::router)),
      kernel(230, 400, op(Row::gate_up)),      kernel(480, 490, marked(Mark::step_ends)),
      kernel(400, 480, op(Row::down_combine)), kernel(700, 710, marked(Mark::step_ends)),
      kernel(20, 90, op(Row::head, -1))};
  const DeviceSteps steps = steps_of_device(records, decoded(2), {});
  ASSERT_EQ(steps.steps.size(), 2U);
  EXPECT_EQ(steps.unlabelled, 0);
  EXPECT_EQ(steps.steps[0].begin_ns, 110);
  EXPECT_EQ(steps.steps[0].end_ns, 490);
  EXPECT_EQ(steps.steps[1].begin_ns, 490);
  const Account first = account_of(steps, 0);
  EXPECT_EQ(first.length_ns, 380);
  EXPECT_EQ(ns(first, Row::attention), 80);
  EXPECT_EQ(ns(first, Row::gate_up), 170);
  EXPECT_EQ(ns(first, Row::down_combine), 80);
  EXPECT_EQ(ns(first, Part::router), 25);
  EXPECT_EQ(ns(first, Row::other), 10);
  EXPECT_EQ(ns(first, Part::launch_gaps), 10 + 5);
  EXPECT_EQ(ns(account_of(steps, 1), Part::launch_gaps), 220 - 60 - 10);
}

// Its blocks have their places before the kernel in front has ended, and wait.
TEST(DeviceSteps, AKernelThatWasLaunchedEarlyCountsFromTheEndOfTheOneInFront) {
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)), kernel(5, 60, op(Row::shared)),
      kernel(12, 100, op(Row::gate_up)), kernel(62, 100, op(Row::router)),
      kernel(90, 120, marked(Mark::step_ends))};
  const DeviceSteps steps = steps_of_device(records, decoded(1), {});
  const Account one = account_of(steps, 0);
  EXPECT_EQ(ns(one, Row::shared), 50);
  EXPECT_EQ(ns(one, Row::gate_up), 40);
  EXPECT_EQ(ns(one, Part::router), 0);
  EXPECT_EQ(ns(one, Row::other), 20);
  EXPECT_EQ(ns(one, Part::launch_gaps), 0);
}

TEST(DeviceSteps, WhatRunsOnAnotherStreamWaitsForNobody) {
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)), kernel(10, 60, op(Row::shared)),
      kernel(20, 80, {.activity = Activity::expert_copy}, 8), kernel(80, 100, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}), 0);
  EXPECT_EQ(ns(one, Part::expert_loading), 20);
  EXPECT_EQ(one.hidden_ns[static_cast<std::size_t>(Part::expert_loading)], 40);
}

// What is fetched ahead runs on a branch of the same graph.
TEST(DeviceSteps, ABranchBesideTheOthersWaitsForNobody) {
  const DeviceLabel ahead{.activity = Activity::expert_copy, .layer = 1, .mark = Mark::beside};
  const std::vector<DeviceRecord> records = {kernel(0, 10, marked(Mark::run_begins)), kernel(10, 70, ahead),
                                             kernel(12, 60, op(Row::gate_up)),
                                             kernel(60, 80, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}), 0);
  EXPECT_EQ(ns(one, Row::gate_up), 48);
  EXPECT_EQ(ns(one, Part::expert_loading), 2);
  EXPECT_EQ(one.hidden_ns[static_cast<std::size_t>(Part::expert_loading)], 58);
}

TEST(DeviceSteps, AKernelThatDoesNothingIsALaunchGap) {
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)), kernel(10, 50, op(Row::dense)),
      kernel(51, 52, {.activity = Activity::nothing}), kernel(53, 54, {.activity = Activity::nothing}),
      kernel(60, 70, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}), 0);
  EXPECT_EQ(ns(one, Part::launch_gaps), 10);
  EXPECT_EQ(ns(one, Part::compute), 50);
  EXPECT_EQ(one.records[static_cast<std::size_t>(Part::launch_gaps)], 2);
}

// The wait began long before the device had nothing more to do: until then gaps are the device's own.
TEST(DeviceSteps, TheHostHoldsUpFromWhereTheDeviceRanOutOfWork) {
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)), call(12, 106, "cudaStreamSynchronize"),
      kernel(20, 50, op(Row::attention)),      kernel(70, 100, op(Row::router)),
      call(110, 112, "cudaGetDevice"),         call(300, 306, "cudaGraphLaunch"),
      kernel(310, 330, op(Row::gate_up)),      kernel(330, 340, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}), 0);
  EXPECT_EQ(ns(one, Part::synchronisation), 310 - 100);  // until what was launched has begun
  EXPECT_EQ(ns(one, Part::launch_gaps), 10 + 20);
}

// 10 ns of a kernel of 20, 20 of one of 100: what recording added lies in front of a kernel, or at its begin.
TEST(DeviceSteps, WhatRecordingAddedToKernelsIsTakenOut) {
  const DeviceRecordingCost cost{.kernels = {{20.0, 10.0}, {100.0, 20.0}}, .launch_call_ns = 0.0};
  const std::vector<DeviceRecord> records = {
      kernel(900, 1'000, marked(Mark::run_begins)),
      kernel(1'050, 1'110, op(Row::attention)),               // 110 long with its gap: 20 in front of it
      kernel(1'100, 1'170, op(Row::router)),                  // in its place before: 60 long, 15 at its begin
      kernel(1'175, 1'190, {.activity = Activity::nothing}),  // 20 long: 5 in front of it, 5 at its begin
      kernel(1'180, 1'290, marked(Mark::step_ends))};         // 100 long: 20 at its begin
  const Account one = account_of(steps_of_device(records, decoded(1), {}, cost), 0);
  EXPECT_EQ(one.length_ns, 290);
  EXPECT_EQ(ns(one, Row::attention), 60);
  EXPECT_EQ(ns(one, Part::router), 45);
  EXPECT_EQ(ns(one, Row::other), 80);
  EXPECT_EQ(one.recording_ns, 20 + 15 + 10 + 20);
  EXPECT_EQ(ns(one, Part::launch_gaps), 30 + 10);
}

// The launch of the next step takes as long as this one: nobody waits for it between kernels that do nothing.
TEST(DeviceSteps, ALaunchAheadIsNotWaitedForInTheGapsBetweenKernels) {
  const DeviceRecordingCost cost{.kernels = {}, .launch_call_ns = 10.0};
  const std::vector<DeviceRecord> records = {kernel(0, 10, marked(Mark::run_begins)),
                                             call(12, 95, "cudaGraphLaunch_v10000"),
                                             kernel(20, 30, {.activity = Activity::nothing}),
                                             kernel(40, 50, {.activity = Activity::nothing}),
                                             kernel(60, 90, op(Row::gate_up)),
                                             kernel(92, 100, marked(Mark::step_ends)),
                                             call(102, 150, "cudaGraphLaunch_v10000")};
  const Account one = account_of(steps_of_device(records, decoded(1), {}, cost), 0);
  EXPECT_EQ(one.recording_ns, 0);
  EXPECT_EQ(ns(one, Part::launch_gaps), 50 + 2);
}

// The device waited 100 ns for a call that takes 10 without recording; what it did not wait for costs
// nothing.
TEST(DeviceSteps, WhatRecordingAddedToALaunchIsTakenOutWhereTheDeviceWaitedForIt) {
  const DeviceRecordingCost cost{.kernels = {}, .launch_call_ns = 10.0};
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)),  call(0, 60, "cudaStreamSynchronize"),
      kernel(10, 50, op(Row::attention)),       call(200, 300, "cudaGraphLaunch_v10000"),
      kernel(303, 400, op(Row::gate_up)),       call(310, 390, "cudaGraphLaunch_v10000"),
      kernel(400, 410, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}, cost), 0);
  EXPECT_EQ(one.recording_ns, 90);
  EXPECT_EQ(ns(one, Part::synchronisation), 303 - 50 - 90);
  EXPECT_EQ(ns(one, Row::gate_up), 97);
  EXPECT_EQ(one.length_ns, 400);
}

// Clocks that do not match: nothing begins before its launch has returned.
TEST(DeviceSteps, ADeviceThatSeemsToBeginBeforeTheLaunchReturnsHasWaitedForAllOfIt) {
  const DeviceRecordingCost cost{.kernels = {}, .launch_call_ns = 10.0};
  const std::vector<DeviceRecord> records = {
      kernel(0, 10, marked(Mark::run_begins)),  call(0, 60, "cudaStreamSynchronize"),
      kernel(10, 50, op(Row::attention)),       call(200, 300, "cudaGraphLaunch_v10000"),
      kernel(280, 400, op(Row::gate_up)),       call(310, 390, "cudaGraphLaunch_v10000"),
      kernel(400, 410, marked(Mark::step_ends))};
  const Account one = account_of(steps_of_device(records, decoded(1), {}, cost), 0);
  EXPECT_EQ(one.recording_ns, 90);
  EXPECT_EQ(ns(one, Part::synchronisation), 280 - 50 - 90);
}

TEST(DeviceSteps, CopiesBelongToTheOpThatAskedForThem) {
  const auto copy = [](std::int64_t begin_ns, std::int64_t end_ns, Kind kind, std::uint32_t label) {
    return DeviceRecord{
        .kind = kind, .begin_ns = begin_ns, .end_ns = end_ns, .label = label, .stream = 7, .bytes = 8};
  };
  const std::uint32_t expert = DeviceLabel{.activity = Activity::expert_copy}.packed();
  const std::uint32_t wait = DeviceLabel{.activity = Activity::host_wait}.packed();
  const std::vector<DeviceRecord> records = {kernel(0, 10, marked(Mark::run_begins)),
                                             copy(10, 20, Kind::copy_to_host, wait),
                                             copy(20, 50, Kind::copy_to_device, expert),
                                             copy(50, 54, Kind::copy_to_device, 0),
                                             copy(54, 60, Kind::fill, wait),
                                             kernel(60, 70, marked(Mark::step_ends))};
  const DeviceSteps steps = steps_of_device(records, decoded(1), {});
  const Account one = account_of(steps, 0);
  EXPECT_EQ(ns(one, Part::synchronisation), 14);  // read back, and inputs
  EXPECT_EQ(ns(one, Part::expert_loading), 30);
  EXPECT_EQ(ns(one, Part::compute), 16);
  EXPECT_EQ(steps.unlabelled, 0);
}

// A prompt has the host's times, and what the host computes itself is the model's.
TEST(DeviceSteps, PromptsLieBetweenTheCallsThatRanThem) {
  std::vector<RecordedStep> asked = {
      {.phase = Phase::prefill, .tokens = 5, .begin_ns = 100, .end_ns = 200, .causes = {}}};
  asked.push_back(decoded(1).front());
  const std::vector<StepInterval> host = {{150, 160, Activity::compute, Row::router, 1}};
  const std::vector<DeviceRecord> records = {
      kernel(110, 150, op(Row::attention)), kernel(170, 190, op(Row::head)),
      kernel(220, 230, marked(Mark::run_begins)), kernel(230, 250, op(Row::head)),
      kernel(250, 255, marked(Mark::step_ends))};
  const DeviceSteps steps = steps_of_device(records, asked, host);
  const Account prompt = account_of(steps, 0);
  EXPECT_EQ(prompt.length_ns, 100);
  EXPECT_EQ(ns(prompt, Part::compute), 60);
  EXPECT_EQ(ns(prompt, Part::router), 10);
  EXPECT_EQ(ns(prompt, Part::launch_gaps), 30);
  EXPECT_EQ(ns(account_of(steps, 1), Part::compute), 25);
}

TEST(DeviceSteps, KernelsThatNobodyLabelledAreCounted) {
  DeviceRecord unknown = kernel(20, 50, {});
  unknown.label = 0;
  DeviceRecord outside = unknown;
  outside.begin_ns = 500;
  outside.end_ns = 501;
  const std::vector<DeviceRecord> records = {kernel(0, 10, marked(Mark::run_begins)), unknown,
                                             kernel(60, 70, marked(Mark::step_ends)), outside};
  const DeviceSteps steps = steps_of_device(records, decoded(1), {});
  EXPECT_EQ(steps.unlabelled, 1);
  EXPECT_EQ(steps.unlabelled_ns, 30);
  EXPECT_EQ(ns(account_of(steps, 0), Row::other), 40);
}

TEST(DeviceSteps, RecordsThatDoNotFitTheStepsAreRefused) {
  const std::vector<DeviceRecord> records = {kernel(0, 10, marked(Mark::run_begins)),
                                             kernel(60, 70, marked(Mark::step_ends))};
  EXPECT_THROW(steps_of_device(records, decoded(2), {}), std::runtime_error);
  EXPECT_THROW(steps_of_device(records, {}, {}), std::runtime_error);
  EXPECT_THROW(steps_of_device(std::span(records).subspan(1), decoded(1), {}), std::runtime_error);
}

}  // namespace
}  // namespace moetune
