// A timeline with the kernels of a GPU is imported as it was, and says itself what they are for.
#include "engine/sync_tax/timeline.h"

#include <gtest/gtest.h>

#include "engine/sync_tax/imported_trace.h"
#include "engine/sync_tax/torch_reader.h"
#include "tests/engine/support/device_records.h"

namespace moetune {
namespace {

// What --timeline writes is read back by --import to the same parts, whatever its kernels are called.
TEST(DeviceTimeline, ATimelineOfKernelsIsImportedAsItWas) {
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
TEST(DeviceTimeline, ATimelineSaysItselfWhatItsKernelsAreFor) {
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

}  // namespace
}  // namespace moetune
