#include "engine/device_lookup.h"

#include <cassert>

#include "kernels/fetch_experts.h"
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

void DeviceLookUp::run_wave(const Tensor& ids, bool asks) {
  const SlotDirectory::Shape& shape = directory_.shape();
  const Slice share = directory_.slots_of_layer(moe_layer_);
  const bool has_own = shape.policy == CachePolicy::layer_lru;
  run(*device_, LookUpSlots{.ids = ids,
                            .asks = asks,
                            .state = memory_.state(),
                            .rule = rule_of(shape.policy),
                            .layer = moe_layer_,
                            .first_slot = has_own ? static_cast<int>(share.begin) : 0,
                            .slot_count = has_own ? static_cast<int>(share.count) : shape.slots,
                            .most_hot = static_cast<int>(share.count / 2),
                            .first_source = store_->weight_layer(moe_layer_) * shape.experts,
                            .pending = memory_.pending(),
                            .wave_table = memory_.wave_table(),
                            .fetch = memory_.fetch()});
  for (int fetch = 0; fetch < fetches_; ++fetch)
    run(*device_, FetchExperts{.store = store_->in_memory(),
                             .slots = slots_,
                             .block_bytes = store_->layout().bytes,
                             .list = memory_.fetch(),
                             .counters = memory_.state().counters});
}

}  // namespace moetune
