#include "engine/device_lookup.h"

#include <cassert>

#include "kernels/place_ahead.h"
#include "kernels/run.h"

namespace moetune {
namespace {

EvictionRule rule_of(CachePolicy policy) {
  return {.by_count = policy == CachePolicy::lfu, .keeps_hot = policy == CachePolicy::pinned};
}

}  // namespace

DeviceLookUp::DeviceLookUp(Device& device, const ExpertStore& store, const SlotDirectory::Shape& shape,
                           std::byte* slots)
    : device_(&device),
      store_(&store),
      directory_(shape),
      slots_(slots),
      memory_(device, shape.layers, shape.experts, shape.slots) {
  assert(store.in_memory() != nullptr);
}

void DeviceLookUp::first_wave(int moe_layer, const Tensor& ids) {
  moe_layer_ = moe_layer;
  run_wave(ids, true);
}

void DeviceLookUp::next_wave() { run_wave({}, false); }

LayerSlots DeviceLookUp::slots_of(int moe_layer) const {
  const SlotDirectory::Shape& shape = directory_.shape();
  const Slice share = directory_.slots_of_layer(moe_layer);
  const bool has_own = shape.policy == CachePolicy::layer_lru;
  return {.state = memory_.state(),
          .rule = rule_of(shape.policy),
          .layer = moe_layer,
          .first_slot = has_own ? static_cast<int>(share.begin) : 0,
          .slot_count = has_own ? static_cast<int>(share.count) : shape.slots,
          .first_source = store_->weight_layer(moe_layer) * shape.experts};
}

FetchExperts DeviceLookUp::fetch_of(const FetchList& list) const {
  return {.store = store_->in_memory(), .slots = slots_, .block_bytes = store_->layout().bytes, .list = list};
}

void DeviceLookUp::run_wave(const Tensor& ids, bool asks) {
  if (side_) side_->join();
  run(*device_, LookUpSlots{.ids = ids,
                            .asks = asks,
                            .of = slots_of(moe_layer_),
                            .most_hot = static_cast<int>(directory_.slots_of_layer(moe_layer_).count / 2),
                            .pending = memory_.pending(),
                            .wave_table = memory_.wave_table(),
                            .fetch = memory_.fetch()});
  FetchExperts fetch = fetch_of(memory_.fetch());
  fetch.counters = memory_.state().counters;
  for (int times = 0; times < fetches_; ++times) run(*device_, fetch);
}

void DeviceLookUp::place_ahead(int moe_layer, const Tensor& ids, bool is_between_steps) {
  run(*device_, PlaceAhead{.ids = ids,
                           .of = slots_of(moe_layer),
                           .most = static_cast<int>(directory_.slots_of_layer(moe_layer).count),
                           .is_between_steps = is_between_steps,
                           .fetch = memory_.fetch_ahead()});
}

void DeviceLookUp::fetch_beside() {
  if (!side_) side_ = std::make_unique<SideBranch>(*device_);
  side_->fork();
  run(side_->branch(), fetch_of(memory_.fetch_ahead()));
}

void DeviceLookUp::clear() {
  if (side_) side_->join();
  memory_.clear(*device_);
}

void DeviceLookUp::take_over(const SlotRecord& record) {
  if (side_) side_->join();
  memory_.take_over(*device_, record);
}

}  // namespace moetune
