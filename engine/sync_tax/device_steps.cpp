#include "engine/sync_tax/device_steps.h"

#include <algorithm>
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

struct OnDevice {
  StepInterval interval;
  bool is_labelled;
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

std::vector<OnDevice> on_device(std::span<const DeviceRecord> sorted) {
  std::vector<OnDevice> all;
  StreamOrder order;
  for (const DeviceRecord& record : sorted) {
    if (record.kind == Kind::host_call) continue;
    OnDevice one{interval_of(record), record.label != 0};
    one.interval.begin_ns = order.begin_of(record.stream, record.begin_ns, record.end_ns);
    if (record.label != 0 && DeviceLabel::unpacked(record.label).mark == Mark::does_nothing) continue;
    all.push_back(one);
  }
  return all;
}

std::vector<StepInterval> held_up_by_host(std::span<const DeviceRecord> sorted) {
  std::map<std::uint32_t, std::vector<HostCall>> threads;
  std::vector<std::int64_t> ends_ns;
  for (const DeviceRecord& record : sorted) {
    if (record.kind != Kind::host_call) {
      ends_ns.push_back(record.end_ns);
    } else if (is_wait(record.name) || is_launch(record.name)) {
      threads[record.stream].push_back({record.begin_ns, record.end_ns, is_wait(record.name)});
    }
  }
  std::ranges::sort(ends_ns);
  std::vector<StepInterval> intervals;
  for (const auto& [thread, calls] : threads)
    std::ranges::copy(held_up(calls, ends_ns), std::back_inserter(intervals));
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
  for (const OnDevice& one : on_device(sorted)) intervals.push_back(one.interval);
  return intervals;
}

DeviceSteps steps_of_device(std::span<const DeviceRecord> records, std::span<const RecordedStep> steps,
                            std::span<const StepInterval> host_work) {
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
  const auto add = [&](const StepInterval& interval) {
    bool is_in_a_step = false;
    const auto first = std::ranges::upper_bound(result.steps, interval.begin_ns, {}, &RecordedStep::end_ns);
    for (auto step = first; step != result.steps.end() && step->begin_ns < interval.end_ns; ++step) {
      of_step[static_cast<std::size_t>(step - result.steps.begin())].push_back(interval);
      is_in_a_step = true;
    }
    return is_in_a_step;
  };
  for (const OnDevice& one : on_device(sorted)) {
    if (!add(one.interval) || one.is_labelled || one.interval.activity != Activity::compute) continue;
    ++result.unlabelled;
    result.unlabelled_ns += one.interval.end_ns - one.interval.begin_ns;
  }
  for (const StepInterval& interval : held_up_by_host(sorted)) add(interval);
  for (const StepInterval& interval : host_work) add(interval);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    result.steps[step].first = result.intervals.size();
    result.steps[step].count = of_step[step].size();
    result.intervals.insert(result.intervals.end(), of_step[step].begin(), of_step[step].end());
  }
  return result;
}

}  // namespace moetune
