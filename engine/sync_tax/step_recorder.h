// Records what the steps of an engine on a CPU spend their time on: a scope around every op. Off (a null
// pointer) it costs one comparison per op. Start at StepRecorder; OpScope is what the decoder uses.
//
// On a GPU such scopes would time the launches, not the kernels: there the records have to come from CUPTI.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sync_tax/breakdown.h"
#include "engine/sync_tax/interval.h"

namespace moetune {

// What the operating system did to the process in a step: causes of slow tokens.
struct StepCauses {
  std::int64_t minor_faults = 0;  // pages that had to be mapped
  std::int64_t major_faults = 0;  // and read from disk
  std::int64_t preemptions = 0;   // another process took a core of ours
  std::int64_t waits = 0;         // a thread of ours gave its core up: to wait for another one

  StepCauses& operator+=(const StepCauses& other);
};

struct RecordedStep {
  Phase phase = Phase::decode;
  std::int64_t tokens = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::size_t first = 0;  // of its intervals
  std::size_t count = 0;
  StepCauses causes;
};

class StepRecorder {
 public:
  using NowNs = std::int64_t (*)();
  static std::int64_t steady_now_ns();

  enum class Detail : std::uint8_t { steps, ops };  // steps: their lengths only, for the plain time

  explicit StepRecorder(Detail detail = Detail::ops, NowNs now = &steady_now_ns);

  void begin_step(Phase phase, std::int64_t tokens);
  void end_step();
  void enter_layer(int layer) { layer_ = layer; }  // -1: none

  std::size_t begin(Activity activity, Row row);  // what end() wants back
  void end(std::size_t interval);
  // The interval ends here and one of another row begins; returns that one.
  std::size_t split(std::size_t interval, Row row);

  const std::vector<RecordedStep>& steps() const { return steps_; }
  std::span<const StepInterval> intervals_of(const RecordedStep& step) const;
  void clear();  // keeps the memory

 private:
  Detail detail_;
  NowNs now_;
  int layer_ = -1;
  std::vector<RecordedStep> steps_;
  std::vector<StepInterval> intervals_;
};

// Records from here to the end of the block; nothing with a null recorder.
class OpScope {
 public:
  OpScope(StepRecorder* recorder, Activity activity, Row row = Row::other)
      : recorder_(recorder), interval_(recorder != nullptr ? recorder->begin(activity, row) : 0) {}
  ~OpScope() {
    if (recorder_ != nullptr) recorder_->end(interval_);
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  // What follows belongs to another row.
  void go_on_with(Row row) {
    if (recorder_ != nullptr) interval_ = recorder_->split(interval_, row);
  }

 private:
  StepRecorder* recorder_;
  std::size_t interval_;
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

// The cost of one record on this machine, from many empty ones. Takes about a millisecond.
RecordingCost recording_cost();

}  // namespace moetune
