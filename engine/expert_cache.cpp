#include "engine/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "engine/stopwatch.h"

namespace moetune {
namespace {

// Of the count of what was rerouted.
std::int64_t counter_bytes(const SlotDirectory::Shape& shape) {
  return shape.slots == shape.layers * shape.experts ? 0 : static_cast<std::int64_t>(sizeof(std::int64_t));
}

SlotDirectory::Shape with_weight_layers(SlotDirectory::Shape shape, const ExpertStore& store) {
  shape.weight_layers = store.weight_layers();
  return shape;
}

}  // namespace

ExpertCache::ExpertCache(Device& device, Cpu& host, ExpertStore& store, const SlotDirectory::Shape& shape,
                         Missing missing, bool may_pin)
    : device_(&device),
      host_(&host),
      store_(&store),
      directory_(with_weight_layers(shape, store)),
      slots_(device, slots_in_memory(directory_.shape()) * store.layout().bytes),
      tables_(device, NumberType::i32, {shape.layers, shape.experts}),
      wave_table_(device, NumberType::i32, {shape.experts}),
      rerouted_(device, counter_bytes(shape)),
      seen_(static_cast<std::size_t>(shape.experts), 0),
      masked_table_(static_cast<std::size_t>(shape.experts), -1) {
  for (std::vector<std::int32_t>* list : {&pending_, &wave_, &missing_, &postponed_})
    list->reserve(static_cast<std::size_t>(shape.experts));
  if (is_resident()) {
    fill_all();
    return;
  }
  missing_stays_ = missing == Missing::stays_outside;
  const bool device_decides = missing == Missing::fetched_by_device;
  if (device_decides || (may_pin && (missing_stays_ || !shares_host_memory(device))))
    store.keep_in_memory(device, host);
  else if (!missing_stays_)  // then each is read once, and nothing is promoted
    store.keep_outside(host.pool());
  if (device_decides)
    look_up_ = std::make_unique<DeviceLookUp>(device, store, directory_.shape(), slots_.data());
  clear();
  reset_counters();
}

void ExpertCache::clear() {
  if (is_resident()) return;
  wait_for_ahead();
  ahead_.clear();
  directory_ = SlotDirectory(directory_.shape());
  upload_all_tables();
  if (look_up_) look_up_->clear();
}

void ExpertCache::fill_all() {
  const SlotDirectory::Shape& shape = directory_.shape();
  for (int layer = 0; layer < shape.layers; ++layer)
    for (int expert = 0; expert < shape.experts; ++expert) directory_.place(layer, expert);
  directory_.release_all();
  std::vector<ExpertStore::Wanted> wanted;
  for (int layer = 0; layer < store_->weight_layers(); ++layer)
    for (int expert = 0; expert < shape.experts; ++expert)
      wanted.push_back({layer, expert, slot_data(std::int64_t{layer} * shape.experts + expert)});
  store_->load_all(*device_, *host_, wanted);
  for (int layer = 0; layer < shape.layers; ++layer) upload_table(layer);
}

void ExpertCache::begin_layer(int moe_layer, std::span<const std::int32_t> ids, int waves_at_most) {
  wait_for_ahead();
  moe_layer_ = moe_layer;
  uses_wave_table_ = waves_at_most > 1;
  ++layer_steps_;
  pending_.clear();
  counters_.lookups += static_cast<std::int64_t>(ids.size());
  const std::int64_t misses_before = counters_.misses;
  for (const std::int32_t expert : ids) {
    std::uint32_t& seen = seen_[static_cast<std::size_t>(expert)];
    if (seen == layer_steps_) continue;
    seen = layer_steps_;
    pending_.push_back(expert);
    ++(directory_.look_up(moe_layer, expert) ? counters_.hits : counters_.misses);
  }
  counters_.missing_layers += counters_.misses > misses_before ? 1 : 0;
  settle_ahead();
}

// The experts that are resident come first, so that none of them is lost to one that is not.
void ExpertCache::next_wave() {
  directory_.release_all();
  const std::span<const std::int32_t> table = directory_.table(moe_layer_);
  wave_.clear();
  missing_.clear();
  postponed_.clear();
  outside_.clear();
  for (const std::int32_t expert : pending_)
    if (table[static_cast<std::size_t>(expert)] >= 0) {
      directory_.hold(moe_layer_, expert);
      wave_.push_back(expert);
    }
  if (wave_.size() < pending_.size()) {
    for (const std::int32_t expert : pending_) {
      if (table[static_cast<std::size_t>(expert)] >= 0) continue;
      if (const auto placement = missing_stays_ ? directory_.place_if_free(moe_layer_, expert)
                                                : directory_.place(moe_layer_, expert)) {
        counters_.evictions += placement->evicted ? 1 : 0;
        missing_.push_back(expert);
        wave_.push_back(expert);
      } else {
        (missing_stays_ ? outside_ : postponed_).push_back(expert);
      }
    }
    assert(!wave_.empty() || missing_stays_);  // a layer always has a slot that can be emptied
    load(missing_);
  }
  assert(uses_wave_table_ || postponed_.empty());
  if (uses_wave_table_) upload_wave_table(wave_);
  pending_.swap(postponed_);
}

void ExpertCache::load(std::span<const std::int32_t> experts) {
  if (experts.empty()) return;
  const OpScope scope(recorder_, Activity::expert_copy);
  const Stopwatch watch;
  const std::span<const std::int32_t> table = directory_.table(moe_layer_);
  std::vector<ExpertStore::Wanted> wanted;
  for (const std::int32_t expert : experts)
    wanted.push_back({moe_layer_, expert, slot_data(table[static_cast<std::size_t>(expert)])});
  // Tables first: from memory that is not pinned they are copied while the device has nothing to do yet.
  upload_changed_tables(moe_layer_);
  try {
    for (int fetch = 0; fetch < fetches_; ++fetch) store_->load_all(*device_, *host_, wanted);
  } catch (...) {  // what was not brought in must not be taken for resident later
    for (const std::int32_t expert : experts) directory_.remove(moe_layer_, expert);
    upload_changed_tables(moe_layer_);
    throw;
  }
  counters_.bytes_read += static_cast<std::int64_t>(experts.size()) * layout().bytes;
  counters_.load_seconds += watch.seconds();
}

std::span<const std::int32_t> ExpertCache::device_table(int moe_layer) {
  if (!is_resident()) return directory_.table(moe_layer);
  resident_table_.resize(static_cast<std::size_t>(directory_.shape().experts));
  std::iota(resident_table_.begin(), resident_table_.end(),
            store_->weight_layer(moe_layer) * directory_.shape().experts);
  return resident_table_;
}

void ExpertCache::upload_table(int moe_layer) {
  const std::span<const std::int32_t> table = device_table(moe_layer);
  copy_to_device(*device_, table.data(), tables_.view().rows(moe_layer, 1).data(),
                 static_cast<std::int64_t>(table.size_bytes()));
}

// An eviction may have been in any other layer.
void ExpertCache::upload_changed_tables(int moe_layer) {
  if (directory_.shape().policy == CachePolicy::layer_lru)
    upload_table(moe_layer);
  else
    upload_all_tables();
}

void ExpertCache::upload_all_tables() {
  const std::span<const std::int32_t> tables = directory_.tables();
  copy_to_device(*device_, tables.data(), tables_.view().data(),
                 static_cast<std::int64_t>(tables.size_bytes()));
}

void ExpertCache::upload_wave_table(std::span<const std::int32_t> experts) {
  const std::span<const std::int32_t> table = device_table(moe_layer_);
  std::ranges::fill(masked_table_, -1);
  for (const std::int32_t expert : experts)
    masked_table_[static_cast<std::size_t>(expert)] = table[static_cast<std::size_t>(expert)];
  copy_to_device(*device_, masked_table_.data(), wave_table_.view().data(),
                 static_cast<std::int64_t>(masked_table_.size() * sizeof(std::int32_t)));
}

void ExpertCache::begin_resident_layer(int moe_layer) {
  assert(is_resident());
  moe_layer_ = moe_layer;
  uses_wave_table_ = false;
  pending_.clear();
}

int ExpertCache::waves_at_most(int moe_layer, std::int64_t tokens, int k) const {
  if (is_resident() || missing_stays_) return 1;
  const std::int64_t distinct = std::min<std::int64_t>(tokens * k, directory_.shape().experts);
  const std::int64_t together = directory_.slots_for_sure(moe_layer);
  return static_cast<int>((distinct + together - 1) / together);
}

ExpertCache::Counters ExpertCache::counters() const {
  if (is_resident()) return counters_;
  Counters counters = counters_;
  copy_to_host(*device_, rerouted_.data(), &counters.rerouted, sizeof(counters.rerouted));
  if (!look_up_) return counters;
  const SlotCounters there = look_up_->counters();
  return {.lookups = there.lookups,
          .hits = there.hits,
          .misses = there.misses,
          .missing_layers = there.missing_layers,
          .evictions = there.evictions,
          .rerouted = counters.rerouted,
          .bytes_read = there.fetched * layout().bytes,
          .load_seconds = 1e-9 * static_cast<double>(there.fetch_ns),
          .ahead = there.ahead,
          .ahead_in_vain = there.ahead_in_vain};
}

void ExpertCache::reset_counters() {
  counters_ = {};
  if (is_resident()) return;
  copy_to_device(*device_, &counters_.rerouted, rerouted_.data(), sizeof(counters_.rerouted));
  if (look_up_) look_up_->reset_counters();
}

Tensor ExpertCache::table(int moe_layer) const {
  const Tensor& tables = look_up_ ? look_up_->tables() : tables_.view();
  return tables.rows(moe_layer, 1).reshaped({directory_.shape().experts});
}

Tensor ExpertCache::wave_table() const {
  if (look_up_) return look_up_->wave_table();
  return uses_wave_table_ ? wave_table_.view() : table(moe_layer_);
}

std::int64_t ExpertCache::slots_in_memory(const SlotDirectory::Shape& shape) {
  const bool is_shared = shape.weight_layers > 0 && shape.slots == shape.layers * shape.experts;
  return is_shared ? std::int64_t{shape.weight_layers} * shape.experts : shape.slots;
}

std::int64_t ExpertCache::device_bytes_of(const SlotDirectory::Shape& shape, const ExpertLayout& layout,
                                          Missing missing) {
  const std::int64_t table_entries = (std::int64_t{shape.layers} + 1) * shape.experts;
  return slots_in_memory(shape) * layout.bytes + table_entries * element_bytes(NumberType::i32) +
         counter_bytes(shape) + (missing == Missing::fetched_by_device ? DeviceLookUp::bytes_of(shape) : 0);
}

}  // namespace moetune
