#include "engine/sync_tax/device_steps.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "engine/sync_tax/device_label.h"
#include "engine/sync_tax/host_calls.h"
#include "engine/sync_tax/stream_order.h"

namespace moetune {
namespace {

using Kind = DeviceRecord::Kind;

constexpr std::int64_t most_gap_ns = 2'000;  // that still belongs to the kernel behind it

struct OnDevice {
  StepInterval interval;
  bool is_labelled;
  StepInterval recording;  // in front of it or its first part; empty: nothing
};

// Copies between host and device are the host's affair (a choice read back, inputs, logits) but for experts.
StepInterval interval_of(const DeviceRecord& record) {
  StepInterval interval{.begin_ns = record.begin_ns, .end_ns = record.end_ns};
  const bool crosses = record.kind == Kind::copy_to_device || record.kind == Kind::copy_to_host;
  const DeviceLabel label = record.label == 0 ? DeviceLabel{} : DeviceLabel::unpacked(record.label);
  interval.activity = label.activity;
  interval.row = label.row;
  interval.layer = label.layer;
  if (crosses && label.activity != Activity::expert_copy) interval.activity = Activity::host_wait;
  if (!crosses && label.activity == Activity::host_wait) interval.activity = Activity::compute;
  return interval;
}

// All branches of a graph have the stream that it was launched on.
std::int64_t branch_of(const DeviceRecord& record) {
  constexpr std::int64_t beside = std::int64_t{1} << 32;
  const bool is_beside = record.label != 0 && DeviceLabel::unpacked(record.label).mark == Mark::beside;
  return record.stream + (is_beside ? beside : 0);
}

// What recording added lies in the gap in front of a kernel, as far as there is one, and then at its begin.
void take_out(std::int64_t added_ns, std::int64_t free_ns, OnDevice& one) {
  const std::int64_t from_ns = std::max(free_ns, one.interval.begin_ns - added_ns);
  one.recording = {from_ns, std::min(from_ns + added_ns, one.interval.end_ns), Activity::recording,
                   Row::other, -1};
  one.interval.begin_ns = std::max(one.interval.begin_ns, one.recording.end_ns);
}

std::vector<OnDevice> on_device(std::span<const DeviceRecord> sorted, const DeviceRecordingCost& cost) {
  std::vector<OnDevice> all;
  StreamOrder order;
  for (const DeviceRecord& record : sorted) {
    if (record.kind == Kind::host_call) continue;
    OnDevice one{interval_of(record), record.label != 0, {}};
    const std::int64_t free_ns = order.free_at(branch_of(record), record.begin_ns);
    one.interval.begin_ns = order.begin_of(branch_of(record), record.begin_ns, record.end_ns);
    if (record.kind == Kind::kernel) {
      const std::int64_t length_ns =
          record.end_ns - std::clamp(free_ns, record.begin_ns - most_gap_ns, record.end_ns);
      take_out(cost.added_to(length_ns), std::min(free_ns, one.interval.begin_ns), one);
    }
    all.push_back(one);
  }
  return all;
}

// What a device has to do at a time, from the begins and ends of all of it.
class DeviceWork {
 public:
  explicit DeviceWork(std::span<const DeviceRecord> sorted) {
    for (const DeviceRecord& record : sorted) {
      if (record.kind == Kind::host_call) continue;
      begins_ns_.push_back(record.begin_ns);
      ends_ns_.push_back(record.end_ns);
    }
    std::ranges::sort(ends_ns_);
  }

  // Since when it has had nothing to do; empty: it has.
  std::optional<std::int64_t> idle_since(std::int64_t at_ns) const {
    const auto begun = std::ranges::upper_bound(begins_ns_, at_ns) - begins_ns_.begin();
    const auto ended = std::ranges::upper_bound(ends_ns_, at_ns);
    if (begun > ended - ends_ns_.begin()) return std::nullopt;
    return ended == ends_ns_.begin() ? std::numeric_limits<std::int64_t>::min() : *(ended - 1);
  }
  // When it next begins something; empty: never.
  std::optional<std::int64_t> next_begin(std::int64_t at_ns) const {
    const auto next = std::ranges::upper_bound(begins_ns_, at_ns);
    if (next == begins_ns_.end()) return std::nullopt;
    return *next;
  }
  const std::vector<std::int64_t>& begins_ns() const { return begins_ns_; }
  const std::vector<std::int64_t>& ends_ns() const { return ends_ns_; }

 private:
  std::vector<std::int64_t> begins_ns_;
  std::vector<std::int64_t> ends_ns_;
};

// Beyond what such a call takes without recording, a device that has nothing to do waits for the recording:
// what it was given begins later by as much. It lies in front of that, because the clocks of host and device
// are matched to 10 us only: work that seems to begin before its launch returns has waited for it all the
// same. While one step runs the next ones are launched: between their kernels nobody waits for that.
std::vector<StepInterval> longer_launches(std::span<const DeviceRecord> sorted,
                                          const DeviceRecordingCost& cost) {
  std::vector<StepInterval> intervals;
  const auto plain_ns = static_cast<std::int64_t>(cost.launch_call_ns);
  if (plain_ns <= 0) return intervals;
  const DeviceWork work(sorted);
  for (const DeviceRecord& record : sorted) {
    if (record.kind != Kind::host_call || !is_graph_launch(record.name)) continue;
    std::int64_t idle_at_ns = record.end_ns;
    auto idle_since_ns = work.idle_since(idle_at_ns);
    if (!idle_since_ns) {
      idle_at_ns = record.begin_ns + plain_ns;
      idle_since_ns = work.idle_since(idle_at_ns);
      if (!idle_since_ns || *idle_since_ns > record.begin_ns) continue;
    }
    const auto begins_ns = work.next_begin(idle_at_ns);
    if (!begins_ns) continue;
    const std::int64_t longer_ns = record.end_ns - record.begin_ns - plain_ns;
    const std::int64_t from_ns = std::max(*idle_since_ns, *begins_ns - longer_ns);
    if (from_ns < *begins_ns) intervals.push_back({from_ns, *begins_ns, Activity::recording, Row::other, -1});
  }
  return intervals;
}

std::vector<StepInterval> held_up_by_host(std::span<const DeviceRecord> sorted) {
  std::map<std::uint32_t, std::vector<HostCall>> threads;
  const DeviceWork work(sorted);
  for (const DeviceRecord& record : sorted)
    if (record.kind == Kind::host_call && (is_wait(record.name) || is_launch(record.name)))
      threads[record.stream].push_back({record.begin_ns, record.end_ns, is_wait(record.name)});
  std::vector<StepInterval> intervals;
  for (const auto& [thread, calls] : threads)
    std::ranges::copy(held_up(calls, work.begins_ns(), work.ends_ns()), std::back_inserter(intervals));
  return intervals;
}

struct Window {
  std::int64_t begin_ns;
  std::int64_t end_ns;
};

std::vector<Window> decoded_windows(std::span<const DeviceRecord> sorted) {
  std::vector<Window> windows;
  std::optional<std::int64_t> before_ns;
  for (const DeviceRecord& record : sorted) {
    if (record.kind != Kind::kernel || record.label == 0) continue;
    const Mark mark = DeviceLabel::unpacked(record.label).mark;
    if (mark == Mark::step_ends) {
      if (!before_ns) throw std::runtime_error("recorded steps: a step ends that never began");
      windows.push_back({*before_ns, record.end_ns});
    }
    if (mark == Mark::step_ends || mark == Mark::run_begins) before_ns = record.end_ns;
  }
  return windows;
}

}  // namespace

std::vector<StepInterval> intervals_of_device(std::span<const DeviceRecord> records) {
  std::vector<DeviceRecord> sorted(records.begin(), records.end());
  std::ranges::stable_sort(sorted, {}, &DeviceRecord::begin_ns);
  std::vector<StepInterval> intervals = held_up_by_host(sorted);
  for (const OnDevice& one : on_device(sorted, {})) intervals.push_back(one.interval);
  return intervals;
}

DeviceSteps steps_of_device(std::span<const DeviceRecord> records, std::span<const RecordedStep> steps,
                            std::span<const StepInterval> host_work, const DeviceRecordingCost& cost) {
  std::vector<DeviceRecord> sorted(records.begin(), records.end());
  std::ranges::stable_sort(sorted, {}, &DeviceRecord::begin_ns);
  const std::vector<Window> windows = decoded_windows(sorted);
  const auto decoded = std::ranges::count(steps, Phase::decode, &RecordedStep::phase);
  if (decoded != std::ssize(windows))
    throw std::runtime_error(
        fmt::format("recorded steps: {} were decoded, of {} the end was recorded", decoded, windows.size()));

  DeviceSteps result;
  result.steps.assign(steps.begin(), steps.end());
  auto window = windows.begin();
  for (RecordedStep& step : result.steps) {
    if (step.phase == Phase::decode) {
      step.begin_ns = window->begin_ns;
      step.end_ns = window++->end_ns;
    }
  }

  std::vector<std::vector<StepInterval>> of_step(steps.size());
  // Calls what() with the number of every step that the interval touches.
  const auto each_step_of = [&](const StepInterval& interval, const auto& what) {
    auto step = std::ranges::upper_bound(result.steps, interval.begin_ns, {}, &RecordedStep::end_ns);
    for (; step != result.steps.end() && step->begin_ns < interval.end_ns; ++step)
      what(static_cast<std::size_t>(step - result.steps.begin()));
  };
  for (const OnDevice& one : on_device(sorted, cost)) {
    if (one.recording.end_ns > one.recording.begin_ns)
      each_step_of(one.recording, [&](std::size_t step) { of_step[step].push_back(one.recording); });
    bool is_in_a_step = false;
    each_step_of(one.interval, [&](std::size_t step) {
      of_step[step].push_back(one.interval);
      is_in_a_step = true;
    });
    if (!is_in_a_step || one.is_labelled || one.interval.activity != Activity::compute) continue;
    ++result.unlabelled;
    result.unlabelled_ns += one.interval.end_ns - one.interval.begin_ns;
  }
  for (const StepInterval& interval : held_up_by_host(sorted))
    each_step_of(interval, [&](std::size_t step) { of_step[step].push_back(interval); });
  for (const StepInterval& interval : longer_launches(sorted, cost))
    each_step_of(interval, [&](std::size_t step) { of_step[step].push_back(interval); });
  for (const StepInterval& interval : host_work)
    each_step_of(interval, [&](std::size_t step) { of_step[step].push_back(interval); });
  for (std::size_t step = 0; step < steps.size(); ++step) {
    result.steps[step].first = result.intervals.size();
    result.steps[step].count = of_step[step].size();
    result.intervals.insert(result.intervals.end(), of_step[step].begin(), of_step[step].end());
  }
  return result;
}

}  // namespace moetune
