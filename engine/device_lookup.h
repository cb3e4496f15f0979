// The expert cache's decisions on the device: looking up, choosing who leaves, fetching what is missing out
// of host memory, all enqueued, nothing asked of the host. By the rules of slot_directory.h.
//
//   lookup.first_wave(moe_layer, ids);            // (tokens, k), on the device
//   run(device, ExpertFfn{..., .slot_of_expert = lookup.wave_table(), ...});
//   for (wave = 1; wave < lookup.waves_at_most(tokens, k); ++wave) lookup.next_wave(), run(...);
#pragma once

#include <cstdint>
#include <memory>

#include "engine/expert_store.h"
#include "engine/slot_directory.h"
#include "kernels/device.h"
#include "kernels/fetch_experts.h"
#include "kernels/side_branch.h"
#include "kernels/slot_memory.h"
#include "kernels/tensor.h"

namespace moetune {

class DeviceLookUp {
 public:
  // store must be in memory; slots: where the experts go.
  DeviceLookUp(Device& device, const ExpertStore& store, const SlotDirectory::Shape& shape, std::byte* slots);

  void first_wave(int moe_layer, const Tensor& ids);
  void next_wave();
  // During a layer's last wave, or between steps, before the first layer: gives slots to experts that a layer
  // still to come is expected to ask for. ids: (tokens, k) on the device, best first; empty: what that layer
  // asked for in its last step.
  void place_ahead(int moe_layer, const Tensor& ids, bool is_between_steps);
  // Begins to bring them in, beside what is enqueued from then on; the next first_wave() waits for them.
  void fetch_beside();
  const Tensor& wave_table() const { return memory_.wave_table(); }
  // (layers, experts) i32: slots, -1: not resident
  const Tensor& tables() const { return memory_.state().slot_of; }

  void repeat_fetches(int times) { fetches_ = times; }
  void clear();
  // Goes on from what the host has placed; the experts themselves are in the slots already.
  void take_over(const SlotRecord& record);
  void reset_counters() { memory_.reset_counters(*device_); }
  SlotCounters counters() const { return memory_.counters(*device_); }  // waits for the device
  std::int64_t bytes() const { return memory_.bytes(); }
  static std::int64_t bytes_of(const SlotDirectory::Shape& shape) {
    return SlotMemory::bytes_of(shape.layers, shape.experts, shape.slots);
  }

 private:
  LayerSlots slots_of(int moe_layer) const;
  FetchExperts fetch_of(const FetchList& list) const;
  void run_wave(const Tensor& ids, bool asks);

  Device* device_;
  const ExpertStore* store_;
  SlotDirectory directory_;  // only for the shares of its layers
  std::byte* slots_;
  SlotMemory memory_;
  int moe_layer_ = 0;
  int fetches_ = 1;
  std::unique_ptr<SideBranch> side_;  // made when it is needed first
};

}  // namespace moetune
