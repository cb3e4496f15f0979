// Records as a GPU would give them, written down by hand: which step and which part of it they become.
#include "engine/sync_tax/device_steps.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "engine/sync_tax/account.h"
#include "engine/sync_tax/device_label.h"
#include "engine/sync_tax/imported_trace.h"
#include "engine/sync_tax/step_recorder.h"
#include "engine/sync_tax/timeline.h"
#include "engine/sync_tax/torch_reader.h"

namespace moetune {
namespace {

using Kind = DeviceRecord::Kind;

constexpr DeviceLabel op(Row row, int layer = 0) {
  return {.activity = Activity::compute, .row = row, .layer = layer};
}
constexpr DeviceLabel marked(Mark mark) {
  return {.activity = Activity::compute, .row = Row::other, .layer = -1, .mark = mark};
}

DeviceRecord kernel(std::int64_t begin_ns, std::int64_t end_ns, const DeviceLabel& label,
                    std::uint32_t stream = 7) {
  return {.kind = Kind::kernel,
          .begin_ns = begin_ns,
          .end_ns = end_ns,
          .label = label.packed(),
          .stream = stream,
          .name = "k"};
}
DeviceRecord call(std::int64_t begin_ns, std::int64_t end_ns, const char* name) {
  return {.kind = Kind::host_call, .begin_ns = begin_ns, .end_ns = end_ns, .stream = 1, .name = name};
}

std::vector<RecordedStep> decoded(std::size_t steps) {
  return std::vector<RecordedStep>(steps, RecordedStep{.phase = Phase::decode, .tokens = 1, .causes = {}});
}

Account account_of(const DeviceSteps& steps, std::size_t which) {
  const RecordedStep& step = steps.steps.at(which);
  return account(step.begin_ns, step.end_ns, std::span(steps.intervals).subspan(step.first, step.count));
}
std::int64_t ns(const Account& account, Part part) {
  return account.exposed_ns[static_cast<std::size_t>(part)];
}
std::int64_t ns(const Account& account, Row row) { return account.row_ns[static_cast<std::size_t>(row)]; }

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

// What --timeline writes is read back by --import to the same parts, whatever its kernels are called.
TEST(DeviceSteps, ATimelineOfKernelsIsImportedAsItWas) {
  DeviceRecord router = kernel(1'020, 3'000, op(Row::router));
  router.name = "_ZN7moetune12_GLOBAL__N_16routerEv";
  DeviceRecord gate_up = kernel(2'500, 9'000, op(Row::gate_up));
  gate_up.name = "_ZN7moetune4cuda12_GLOBAL__N_111gate_up_fewEv";
  DeviceRecord copy{
      .kind = Kind::copy_to_device, .begin_ns = 8'000, .end_ns = 12'000, .stream = 8, .bytes = 1 << 20};
  copy.label = DeviceLabel{.activity = Activity::expert_copy}.packed();
  DeviceRecord down = kernel(30'000, 33'000, op(Row::down_combine));
  down.name = "_ZN7moetune4cuda12_GLOBAL__N_18down_fewEv";
  const std::vector<DeviceRecord> records = {down,    call(11'000, 13'000, "cudaStreamSynchronize_v3020"),
                                             gate_up, router,
                                             copy,    call(28'000, 29'000, "cudaLaunchKernelExC_v11060")};
  const Account ours = account(1'020, 33'000, intervals_of_device(records));
  const ImportedTrace trace = parse_torch_trace(timeline_of({}, {}, "a run", records), "timeline");
  EXPECT_TRUE(trace.unmatched_ns.empty());
  const Account theirs = imported_accounts(trace).at(0).account;
  EXPECT_EQ(theirs.exposed_ns, ours.exposed_ns);
  EXPECT_EQ(theirs.row_ns, ours.row_ns);
  EXPECT_EQ(ns(ours, Row::gate_up), 6'000);
  EXPECT_EQ(ns(ours, Part::expert_loading), 3'000);
  EXPECT_EQ(ns(ours, Part::synchronisation), 30'000 - 12'000);
  EXPECT_EQ(ns(ours, Part::launch_gaps), 0);
}

// At 32 sequences the router's product is the kernel of every other product, and a fill comes first: neither
// its name nor the first kernel says so.
TEST(DeviceSteps, ATimelineSaysItselfWhatItsKernelsAreFor) {
  DeviceRecord product = kernel(2'000, 5'000, op(Row::router));
  product.name = "_ZN7moetune4cuda12_GLOBAL__N_19rows_gemmEv";
  DeviceRecord unlabelled = kernel(5'000, 6'000, {});
  unlabelled.label = 0;
  unlabelled.name = "_ZN7moetune12_GLOBAL__N_16routerEv";
  const DeviceLabel beside{.activity = Activity::expert_copy, .layer = 1, .mark = Mark::beside};
  const auto of_kind = [](Kind kind, std::int64_t begin_ns, std::int64_t end_ns, DeviceLabel label) {
    return DeviceRecord{
        .kind = kind, .begin_ns = begin_ns, .end_ns = end_ns, .label = label.packed(), .stream = 7};
  };
  const std::vector<DeviceRecord> records = {
      of_kind(Kind::fill, 100, 300, op(Row::attention)),
      product,
      unlabelled,
      kernel(5'500, 9'000, beside),
      kernel(6'000, 7'000, {.activity = Activity::nothing}),
      of_kind(Kind::copy_to_device, 9'000, 9'500, {.activity = Activity::expert_copy}),
      of_kind(Kind::copy_on_device, 9'500, 9'700, {.activity = Activity::host_wait})};
  const Account ours = account(100, 9'700, intervals_of_device(records));
  const ImportedTrace trace = parse_torch_trace(timeline_of({}, {}, "a run", records), "timeline");
  EXPECT_TRUE(trace.unmatched_ns.empty());
  const Account theirs = imported_accounts(trace).at(0).account;
  EXPECT_EQ(theirs.length_ns, ours.length_ns);
  EXPECT_EQ(theirs.exposed_ns, ours.exposed_ns);
  EXPECT_EQ(theirs.hidden_ns, ours.hidden_ns);
  EXPECT_EQ(theirs.row_ns, ours.row_ns);
  EXPECT_EQ(ns(ours, Part::router), 3'000);
  EXPECT_EQ(ns(ours, Row::attention), 200);
  EXPECT_EQ(ns(ours, Row::other), 1'200);
  EXPECT_EQ(ns(ours, Part::launch_gaps), 1'700);
  EXPECT_EQ(ns(ours, Part::expert_loading), 3'500);
}

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
