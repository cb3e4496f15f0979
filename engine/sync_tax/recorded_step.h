// One step of an engine as somebody recorded it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/sync_tax/interval.h"

namespace moetune {

// What the operating system did to the process in a step: causes of slow tokens.
struct StepCauses {
  std::int64_t minor_faults = 0;  // pages that had to be mapped
  std::int64_t major_faults = 0;  // and read from disk
  std::int64_t preemptions = 0;   // another process took a core of ours
  std::int64_t waits = 0;         // a thread of ours gave its core up: to wait for another one

  StepCauses& operator+=(const StepCauses& other);
  static StepCauses so_far();  // of the process; nothing where that is not known
  StepCauses since(const StepCauses& before) const;
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

}  // namespace moetune
