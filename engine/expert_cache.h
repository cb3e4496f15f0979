// The slots in which routed experts lie on a device, and the waves in which a layer's experts are brought in
// and used. Resident is nothing special: as many slots as experts, all filled while loading.
//
//   cache.begin_layer(moe_layer, ids, ...);  // what the router chose
//   do {
//     cache.next_wave();                     // brings in what fits beside each other: one wave when all does
//     run(device, ExpertFfn{..., .slot_of_expert = cache.wave_table(), .slots = cache.slots(), ...});
//   } while (!cache.is_last_wave());
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/background_loader.h"
#include "engine/device_lookup.h"
#include "engine/expert_store.h"
#include "engine/slot_directory.h"
#include "engine/sync_tax/step_recorder.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

class ExpertCache {
 public:
  struct Counters {
    std::int64_t lookups = 0;         // (token, rank) pairs
    std::int64_t hits = 0;            // distinct experts of a layer's step found resident
    std::int64_t misses = 0;          // and not
    std::int64_t missing_layers = 0;  // layers' steps that missed any
    std::int64_t evictions = 0;
    std::int64_t rerouted = 0;  // choices that a resident expert took over (kernels/change_route.h)
    std::int64_t bytes_read = 0;
    double load_seconds = 0.0;  // time spent waiting for misses and for what fetch_ahead() had not finished
    std::int64_t ahead = 0;     // experts that fetch_ahead() brought in
    std::int64_t ahead_in_vain = 0;  // of them: those that the step they were meant for did not ask for
  };

  // What becomes of an expert that is not resident.
  //   fetched_by_host    the host decides and brings it in
  //   fetched_by_device  the device does both (device_lookup.h); the store must fit into pinned memory
  //   stays_outside      it is brought in while slots are free; from then on the host computes it
  //   (host_experts.h), and some of
  //                      those that were asked for are promoted into a slot for later steps
  enum class Missing : std::uint8_t { fetched_by_host, fetched_by_device, stays_outside };

  // slots: over all layers; as many as experts means resident. Fills a resident cache before it returns.
  // may_pin: a GPU's store may be kept in pinned memory.
  ExpertCache(Device& device, Cpu& host, ExpertStore& store, const SlotDirectory::Shape& shape,
              Missing missing = Missing::fetched_by_host, bool may_pin = true);

  // ids: (tokens, k) expert ids on the host. waves_at_most: of this step; where it is 1 the layer's table
  // serves.
  void begin_layer(int moe_layer, std::span<const std::int32_t> ids, int waves_at_most);
  // Where all experts are resident and nobody counts, the router's choice need not come to the host: the
  // table and slots of the layer, for one wave.
  void begin_resident_layer(int moe_layer);

  // Makes the next wave resident; without experts when all of the layer have had theirs.
  void next_wave();
  bool is_last_wave() const { return pending_.empty(); }
  // Experts of the wave that the host is to compute; only where they stay outside.
  bool leaves_some_outside() const { return missing_stays_ && !is_resident(); }
  std::span<const std::int32_t> outside() const { return outside_; }
  // Gives slots to the first most_promoted of them, for later steps, and copies them while the host computes;
  // what they replace leaves by the policy. Once the layer's op that uses the slots is enqueued. Nothing
  // where the store is not in memory.
  static constexpr int most_promoted =
      1;  // by a layer's step: what is copied beside the host's work should not outlast it
  void promote_outside();

  // Where the device decides: the same two steps enqueued, ids (tokens, k) on the device. Nobody knows how
  // many waves it takes: run as many as waves_at_most() says, the last ones may be empty.
  bool looks_up_on_device() const { return look_up_ != nullptr; }
  void first_device_wave(int moe_layer, const Tensor& ids) { look_up_->first_wave(moe_layer, ids); }
  void next_device_wave() { look_up_->next_wave(); }
  // As DeviceLookUp::place_ahead(), and begins to fetch.
  void fetch_ahead_on_device(int moe_layer, const Tensor& ids, bool is_between_steps);
  // How often what is missing is brought in, for tests of what accounts for it: 1, or more.
  void repeat_fetches(int times) {
    fetches_ = times;
    if (look_up_) look_up_->repeat_fetches(times);
  }

  // Waves of a layer's step, from capacities alone.
  int waves_at_most(int moe_layer, std::int64_t tokens, int k) const;

  // Between steps nothing is in use.
  void begin_step() { directory_.release_all(); }
  // Begins to bring in experts that a layer still to come in this step, or the first one of the next, is
  // expected to ask for, and returns at once. During the last wave of a layer or between steps: what that
  // wave uses stays where it is. The next begin_layer() waits for them; on a GPU it is what is enqueued
  // behind it that waits.
  void fetch_ahead(int moe_layer, std::span<const std::int32_t> experts);
  // Fills free slots with experts, most wanted first, as if a step had asked for each of them once, and
  // waits.
  struct HotExpert {
    int moe_layer = 0;
    std::int32_t expert = 0;
  };
  void prewarm(std::span<const HotExpert> hottest_first);

  // (experts) i32 on the device: what is resident of a layer, as far as the device has come. Of a cache that
  // is not resident.
  Tensor table(int moe_layer) const;
  // Where the device counts the choices that resident experts took over; null for a resident cache.
  std::int64_t* rerouted() const { return reinterpret_cast<std::int64_t*>(rerouted_.data()); }

  // (experts) i32: slots of the experts of this wave; others may appear only where there is a single wave.
  Tensor wave_table() const;
  const void* slots() const { return slots_.data(); }
  const ExpertLayout& layout() const { return store_->layout(); }

  // As after loading: empty. A resident cache stays as it is: full.
  void clear();

  bool is_resident() const {
    return directory_.shape().slots == directory_.shape().layers * directory_.shape().experts;
  }
  const SlotDirectory& directory() const { return directory_; }
  // Slots that a layer may count on, whatever the policy.
  std::size_t fair_share(int moe_layer) const {
    return static_cast<std::size_t>(directory_.slots_of_layer(moe_layer).count);
  }
  Counters counters() const;  // waits for the device
  void reset_counters();
  void record_loads(StepRecorder* recorder) { recorder_ = recorder; }  // null: no longer
  std::int64_t device_bytes() const {
    return slots_.bytes() + tables_.bytes() + wave_table_.bytes() + rerouted_.bytes() +
           (look_up_ ? look_up_->bytes() : 0);
  }

  // What a cache of this shape will hold on its device.
  static std::int64_t device_bytes_of(const SlotDirectory::Shape& shape, const ExpertLayout& layout,
                                      Missing missing = Missing::fetched_by_host);

  // Slots that memory is needed for: fewer than the directory has where all are resident and the model is
  // folded.
  static std::int64_t slots_in_memory(const SlotDirectory::Shape& shape);

 private:
  std::byte* slot_data(std::int64_t slot) const { return slots_.data() + slot * layout().bytes; }
  void fill_all();
  // Where a layer's experts lie. Of a resident cache the slots are in the order of layers and experts, those
  // of a folded model once for all layers that share them; every layer still has entries of its own in the
  // directory.
  std::span<const std::int32_t> device_table(int moe_layer);
  void load(std::span<const std::int32_t> experts);
  void upload_table(int moe_layer);
  void upload_changed_tables(int moe_layer);  // after placements in that layer
  void upload_all_tables();                   // of a cache that is not resident
  void upload_wave_table(std::span<const std::int32_t> experts);
  void wait_for_ahead();
  void start_loading(std::vector<ExpertStore::Wanted> wanted);  // of ahead_
  void give_up_ahead();
  void settle_ahead();  // once it is known what the layer asks for

  Device* device_;
  Cpu* host_;  // whose threads read experts, several at once
  ExpertStore* store_;
  SlotDirectory directory_;
  Buffer slots_;
  OwnedTensor tables_;      // (layers, experts) i32 on the device: the directory's tables
  OwnedTensor wave_table_;  // (experts) i32: a table with one wave only
  Buffer rerouted_;         // one std::int64_t

  int moe_layer_ = 0;  // of the running begin_layer()
  bool uses_wave_table_ = false;
  std::vector<std::uint32_t> seen_;  // per expert: number of the last begin_layer() that asked for it
  std::uint32_t layer_steps_ = 0;
  std::vector<std::int32_t>
      pending_;  // experts of the layer still to be given a wave, in order of first appearance
  std::vector<std::int32_t> wave_;     // experts of the running wave
  std::vector<std::int32_t> missing_;  // those of them to be read
  std::vector<std::int32_t> postponed_;
  std::vector<std::int32_t> outside_;
  bool missing_stays_ = false;
  std::vector<std::int32_t> masked_table_;
  std::vector<std::int32_t> resident_table_;
  std::unique_ptr<DeviceLookUp> look_up_;  // where the device decides
  Counters counters_;
  int fetches_ = 1;
  StepRecorder* recorder_ = nullptr;

  int ahead_layer_ = 0;
  std::vector<std::int32_t> ahead_;  // experts of ahead_layer_ on their way or there, and not asked for yet
  bool ahead_is_under_way_ = false;
  std::unique_ptr<BackgroundLoader> loader_;  // made when it is needed first; last: it writes into slots_
};

}  // namespace moetune
