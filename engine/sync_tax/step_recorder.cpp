#include "engine/sync_tax/step_recorder.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/sync_tax/device_steps.h"

namespace moetune {
namespace {

constexpr std::size_t kNothing = static_cast<std::size_t>(-1);
constexpr std::size_t kUsualIntervals = std::size_t{1} << 16;
constexpr std::size_t kUsualSteps = std::size_t{1} << 12;

}  // namespace

StepCauses StepCauses::so_far() {
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  return {usage.ru_minflt, usage.ru_majflt, usage.ru_nivcsw, usage.ru_nvcsw};
}

StepCauses StepCauses::since(const StepCauses& before) const {
  return {minor_faults - before.minor_faults, major_faults - before.major_faults,
          preemptions - before.preemptions, waits - before.waits};
}

StepCauses& StepCauses::operator+=(const StepCauses& other) {
  minor_faults += other.minor_faults;
  major_faults += other.major_faults;
  preemptions += other.preemptions;
  waits += other.waits;
  return *this;
}

std::int64_t StepRecorder::steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StepRecorder::StepRecorder(Detail detail, NowNs now) : detail_(detail), now_(now) {
  steps_.reserve(kUsualSteps);
  if (detail == Detail::ops) intervals_.reserve(kUsualIntervals);
}

StepRecorder::StepRecorder(NowNs now, TraceLabels& labels) : StepRecorder(Detail::ops, now) {
  labels_ = &labels;
}

void StepRecorder::begin_step(Phase phase, std::int64_t tokens) {
  layer_ = -1;
  // The causes are read outside the window: reading them takes longer than a small op.
  steps_.push_back({.phase = phase,
                    .tokens = tokens,
                    .first = intervals_.size(),
                    .count = 0,
                    .causes = StepCauses::so_far()});
  steps_.back().begin_ns = now_();
}

void StepRecorder::end_step() {
  RecordedStep& step = steps_.back();
  step.end_ns = now_();
  step.causes = StepCauses::so_far().since(step.causes);
  step.count = intervals_.size() - step.first;
}

std::size_t StepRecorder::begin(Activity activity, Row row) {
  if (labels_ != nullptr) {
    const std::uint32_t outer = labels_->current();
    labels_->set_current(
        DeviceLabel{.activity = activity, .row = row, .layer = layer_, .mark = mark_}.packed());
    return outer;
  }
  return begin_interval(activity, row);
}

std::size_t StepRecorder::begin_interval(Activity activity, Row row) {
  if (detail_ == Detail::steps) return kNothing;
  intervals_.push_back({.activity = activity, .row = row, .layer = layer_});
  intervals_.back().begin_ns = now_();
  return intervals_.size() - 1;
}

void StepRecorder::end(std::size_t interval) {
  if (labels_ != nullptr) return labels_->set_current(static_cast<std::uint32_t>(interval));
  end_interval(interval);
}

void StepRecorder::end_interval(std::size_t interval) {
  if (interval != kNothing) intervals_[interval].end_ns = now_();
}

std::size_t StepRecorder::split(std::size_t interval, Row row) {
  if (labels_ != nullptr) {
    DeviceLabel label = DeviceLabel::unpacked(labels_->current());
    label.row = row;
    labels_->set_current(label.packed());
    return interval;
  }
  if (interval == kNothing) return kNothing;
  const std::int64_t now_ns = now_();
  intervals_[interval].end_ns = now_ns;
  intervals_.push_back({now_ns, now_ns, intervals_[interval].activity, row, intervals_[interval].layer});
  return intervals_.size() - 1;
}

// On a GPU an interval of the host's and the labels of what it enqueues go side by side.
std::size_t StepRecorder::begin_on_host(Activity activity, Row row) {
  const std::size_t interval = begin_interval(activity, row);
  if (labels_ != nullptr) outer_labels_.push_back(begin(activity, row));
  return interval;
}

void StepRecorder::end_on_host(std::size_t interval) {
  if (labels_ != nullptr) {
    end(outer_labels_.back());
    outer_labels_.pop_back();
  }
  end_interval(interval);
}

void StepRecorder::add_decoded(std::int64_t tokens, std::span<const std::int64_t> lengths_ns) {
  for (const std::int64_t length_ns : lengths_ns)
    steps_.push_back({.phase = Phase::decode,
                      .tokens = tokens,
                      .begin_ns = 0,
                      .end_ns = length_ns,
                      .first = intervals_.size(),
                      .count = 0,
                      .causes = {}});
}

std::int64_t StepRecorder::take(std::span<const DeviceRecord> records, const DeviceRecordingCost& cost) {
  DeviceSteps steps = steps_of_device(records, steps_, intervals_, cost);
  steps_ = std::move(steps.steps);
  intervals_ = std::move(steps.intervals);
  return steps.unlabelled;
}

std::span<const StepInterval> StepRecorder::intervals_of(const RecordedStep& step) const {
  return std::span(intervals_).subspan(step.first, step.count);
}

void StepRecorder::clear() {
  steps_.clear();
  intervals_.clear();
}

RecordingCost recording_cost() {
  constexpr int scopes = 10'000;
  StepRecorder recorder;
  const auto record_all = [&] {
    recorder.clear();
    recorder.begin_step(Phase::decode, 1);
    for (int i = 0; i < scopes; ++i) const OpScope scope(&recorder, Activity::compute);
    recorder.end_step();
  };
  record_all();  // the memory of the records is touched here
  record_all();
  const RecordedStep& step = recorder.steps().front();
  std::vector<std::int64_t> inside;
  for (const StepInterval& interval : recorder.intervals_of(step))
    inside.push_back(interval.end_ns - interval.begin_ns);
  // The middle of them, and of the distances from one to the next: an interruption makes some of them long.
  std::vector<std::int64_t> apart;
  const std::span<const StepInterval> intervals = recorder.intervals_of(step);
  for (std::size_t i = 1; i < intervals.size(); ++i)
    apart.push_back(intervals[i].begin_ns - intervals[i - 1].begin_ns);
  const double inside_ns = middle_mean(inside);
  return {.inside_ns = inside_ns, .outside_ns = std::max(0.0, middle_mean(apart) - inside_ns)};
}

}  // namespace moetune
