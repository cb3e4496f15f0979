// Records what the steps of an engine spend their time on: a scope around every op. Off (a null pointer, and
// no profiler) it costs two comparisons per op. Start at StepRecorder; OpScope is what the decoder uses.
//
// On a GPU such a scope times the launch, not the kernel: there it labels what the device is recorded to do
// (kernels/device_trace.h), and take() makes intervals of that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sync_tax/breakdown.h"
#include "engine/sync_tax/device_cost.h"
#include "engine/sync_tax/device_label.h"
#include "engine/sync_tax/interval.h"
#include "engine/sync_tax/range_names.h"
#include "engine/sync_tax/recorded_step.h"
#include "kernels/device_trace.h"
#include "kernels/tool_ranges.h"
#include "kernels/trace_labels.h"

namespace moetune {

class StepRecorder {
 public:
  using NowNs = std::int64_t (*)();
  static std::int64_t steady_now_ns();

  enum class Detail : std::uint8_t { steps, ops };  // steps: their lengths only, for the plain time

  explicit StepRecorder(Detail detail = Detail::ops, NowNs now = &steady_now_ns);
  // Of the ops of an engine on a GPU: a DeviceTrace's clock and labels.
  StepRecorder(NowNs now, TraceLabels& labels);

  void begin_step(Phase phase, std::int64_t tokens);
  void end_step();
  void enter_layer(int layer) { layer_ = layer; }  // -1: none

  std::size_t begin(Activity activity, Row row);  // what end() wants back
  void end(std::size_t interval);
  // The interval ends here and one of another row begins; returns that one.
  std::size_t split(std::size_t interval, Row row);

  Detail detail() const { return detail_; }
  // Null where the host's clock times the ops.
  const TraceLabels* labels() const { return labels_; }
  // The same as begin() and end() for what the host itself computes: on a GPU too that is timed.
  std::size_t begin_on_host(Activity activity, Row row);
  void end_on_host(std::size_t interval);
  // What is launched until the mark is changed again means that as well. Only on a GPU.
  void set_mark(Mark mark) { mark_ = mark; }
  // Steps that a GPU decoded without the host in between. lengths_ns: by the device's own clock.
  void add_decoded(std::int64_t tokens, std::span<const std::int64_t> lengths_ns);
  // The device's records of these steps: from here on steps() and intervals_of() hold its times. Returns how
  // many kernels nobody labelled. Throws std::runtime_error where they do not fit the steps.
  std::int64_t take(std::span<const DeviceRecord> records, const DeviceRecordingCost& cost = {});

  const std::vector<RecordedStep>& steps() const { return steps_; }
  std::span<const StepInterval> intervals_of(const RecordedStep& step) const;
  void clear();  // keeps the memory

 private:
  std::size_t begin_interval(Activity activity, Row row);
  void end_interval(std::size_t interval);

  Detail detail_;
  NowNs now_;
  TraceLabels* labels_ = nullptr;
  Mark mark_ = Mark::none;
  int layer_ = -1;
  std::vector<RecordedStep> steps_;
  std::vector<StepInterval> intervals_;    // on a GPU, until take(): of the host
  std::vector<std::size_t> outer_labels_;  // of the HostScopes that are open
};

// Records from here to the end of the block; nothing with a null recorder. A profiler sees a range of the
// same meaning either way.
class OpScope {
 public:
  OpScope(StepRecorder* recorder, Activity activity, Row row = Row::other)
      : range_(tool_watches() ? range_name(activity, row).data() : ""),
        recorder_(recorder),
        interval_(recorder != nullptr ? recorder->begin(activity, row) : 0) {}
  ~OpScope() {
    if (recorder_ != nullptr) recorder_->end(interval_);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  // What follows belongs to another row.
  void go_on_with(Row row) {
    if (recorder_ != nullptr) interval_ = recorder_->split(interval_, row);
    if (tool_watches()) range_.go_on_as(range_name(Activity::compute, row).data());
  }

 private:
  ToolRange range_;
  StepRecorder* recorder_;
  std::size_t interval_;
};

// The same for what the host itself computes.
class HostScope {
 public:
  HostScope(StepRecorder* recorder, Activity activity, Row row = Row::other)
      : range_(tool_watches() ? range_name(activity, row).data() : ""),
        recorder_(recorder),
        interval_(recorder != nullptr ? recorder->begin_on_host(activity, row) : 0) {}
  ~HostScope() {
    if (recorder_ != nullptr) recorder_->end_on_host(interval_);
  }
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  ToolRange range_;
  StepRecorder* recorder_;
  std::size_t interval_;
};

// What is launched from here to the end of the block has a meaning of its own.
class MarkScope {
 public:
  MarkScope(StepRecorder* recorder, Mark mark) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->set_mark(mark);
  }
  ~MarkScope() {
    if (recorder_ != nullptr) recorder_->set_mark(Mark::none);
  }
  MarkScope(const MarkScope&) = delete;
  MarkScope& operator=(const MarkScope&) = delete;

 private:
  StepRecorder* recorder_;
};

// One step, from here to the end of the block; nothing with a null recorder.
class StepScope {
 public:
  StepScope(StepRecorder* recorder, Phase phase, std::int64_t tokens) : recorder_(recorder) {
    if (recorder_ != nullptr) recorder_->begin_step(phase, tokens);
  }
  ~StepScope() {
    if (recorder_ != nullptr) recorder_->end_step();
  }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;

 private:
  StepRecorder* recorder_;
};

// The cost of one record of a CPU on this machine, from many empty ones. Takes about a millisecond.
RecordingCost recording_cost();

}  // namespace moetune
