// The memory behind LookUpSlots and FetchExperts: one allocation on a device, and where its arrays lie.
#pragma once

#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/slot_lookup.h"
#include "kernels/slot_record.h"

namespace moetune {

class SlotMemory {
 public:
  SlotMemory() = default;
  // Empty slots, counters at zero. experts: of a layer.
  SlotMemory(Device& device, int layers, int experts, int slots);

  const SlotState& state() const { return state_; }
  const FetchList& fetch() const { return fetch_; }
  const FetchList& fetch_ahead() const { return fetch_ahead_; }  // under way while fetch() is made
  const Tensor& pending() const { return pending_; }             // (1 + experts) i32
  const Tensor& wave_table() const { return wave_table_; }       // (experts) i32

  // As after construction; the counters stay.
  void clear(Device& device);
  // As after steps that left this behind; no layer has asked for anything since. The counters stay.
  void take_over(Device& device, const SlotRecord& record);
  void reset_counters(Device& device);
  // Waits for the device.
  SlotCounters counters(Device& device) const;

  std::int64_t bytes() const { return memory_.bytes(); }
  static std::int64_t bytes_of(int layers, int experts, int slots);

 private:
  Buffer memory_;
  std::int64_t cleared_bytes_ = 0;  // at the start: all but the counters
  SlotState state_;
  FetchList fetch_;
  FetchList fetch_ahead_;
  Tensor pending_;
  Tensor wave_table_;
};

}  // namespace moetune
