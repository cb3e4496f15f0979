#include "engine/expert_cache.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <numeric>

namespace moetune {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

SlotDirectory::Shape with_weight_layers(SlotDirectory::Shape shape, const ExpertStore& store) {
  shape.weight_layers = store.weight_layers();
  return shape;
}

}  // namespace

ExpertCache::ExpertCache(Device& device, Cpu& host, ExpertStore& store, const SlotDirectory::Shape& shape)
    : device_(&device),
      host_(&host),
      store_(&store),
      directory_(with_weight_layers(shape, store)),
      slots_(device, slots_in_memory(directory_.shape()) * store.layout().bytes),
      tables_(device, NumberType::i32, {shape.layers, shape.experts}),
      wave_table_(device, NumberType::i32, {shape.experts}),
      seen_(static_cast<std::size_t>(shape.experts), 0),
      masked_table_(static_cast<std::size_t>(shape.experts), -1) {
  for (std::vector<std::int32_t>* list : {&pending_, &wave_, &missing_, &postponed_})
    list->reserve(static_cast<std::size_t>(shape.experts));
  if (!is_resident()) store.keep_outside(host.pool());
  if (is_resident())
    fill_all();
  else
    clear();
}

void ExpertCache::clear() {
  if (is_resident()) return;
  wait_for_ahead();
  ahead_.clear();
  directory_ = SlotDirectory(directory_.shape());
  for (int layer = 0; layer < directory_.shape().layers; ++layer) upload_table(layer);
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

void ExpertCache::begin_layer(int moe_layer, std::span<const std::int32_t> ids) {
  wait_for_ahead();
  moe_layer_ = moe_layer;
  uses_wave_table_ = false;
  ++layer_steps_;
  pending_.clear();
  counters_.lookups += static_cast<std::int64_t>(ids.size());
  for (const std::int32_t expert : ids) {
    std::uint32_t& seen = seen_[static_cast<std::size_t>(expert)];
    if (seen == layer_steps_) continue;
    seen = layer_steps_;
    pending_.push_back(expert);
    ++(directory_.look_up(moe_layer, expert) ? counters_.hits : counters_.misses);
  }
  settle_ahead();
}

// The experts that are resident come first, so that none of them is lost to one that is not.
bool ExpertCache::next_wave() {
  directory_.release_all();
  if (pending_.empty()) return false;
  const std::span<const std::int32_t> table = directory_.table(moe_layer_);
  wave_.clear();
  missing_.clear();
  postponed_.clear();
  for (const std::int32_t expert : pending_)
    if (table[static_cast<std::size_t>(expert)] >= 0) {
      directory_.hold(moe_layer_, expert);
      wave_.push_back(expert);
    }
  if (wave_.size() < pending_.size()) {
    for (const std::int32_t expert : pending_) {
      if (table[static_cast<std::size_t>(expert)] >= 0) continue;
      if (const auto placement = directory_.place(moe_layer_, expert)) {
        counters_.evictions += placement->evicted ? 1 : 0;
        missing_.push_back(expert);
        wave_.push_back(expert);
      } else {
        postponed_.push_back(expert);
      }
    }
    assert(!wave_.empty());  // a layer always has a slot that can be emptied
    load(missing_);
  }
  const bool is_only_wave = postponed_.empty() && !uses_wave_table_;
  if (!is_only_wave) {
    upload_wave_table(wave_);
    uses_wave_table_ = true;
  }
  pending_.swap(postponed_);
  return true;
}

void ExpertCache::load(std::span<const std::int32_t> experts) {
  if (experts.empty()) return;
  const OpScope scope(recorder_, Activity::expert_copy);
  const auto start = std::chrono::steady_clock::now();
  const std::span<const std::int32_t> table = directory_.table(moe_layer_);
  std::vector<ExpertStore::Wanted> wanted;
  for (const std::int32_t expert : experts)
    wanted.push_back({moe_layer_, expert, slot_data(table[static_cast<std::size_t>(expert)])});
  try {
    store_->load_all(*device_, *host_, wanted);
  } catch (...) {  // what was not brought in must not be taken for resident later
    for (const std::int32_t expert : experts) directory_.remove(moe_layer_, expert);
    throw;
  }
  // An eviction may have been in any layer.
  for (int layer = 0; layer < directory_.shape().layers; ++layer) upload_table(layer);
  counters_.bytes_read += static_cast<std::int64_t>(experts.size()) * layout().bytes;
  counters_.load_seconds += seconds_since(start);
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

Tensor ExpertCache::wave_table() const {
  return uses_wave_table_ ? wave_table_.view()
                          : tables_.view().rows(moe_layer_, 1).reshaped({directory_.shape().experts});
}

std::int64_t ExpertCache::slots_in_memory(const SlotDirectory::Shape& shape) {
  const bool is_shared = shape.weight_layers > 0 && shape.slots == shape.layers * shape.experts;
  return is_shared ? std::int64_t{shape.weight_layers} * shape.experts : shape.slots;
}

std::int64_t ExpertCache::device_bytes_of(const SlotDirectory::Shape& shape, const ExpertLayout& layout) {
  const std::int64_t table_entries = (std::int64_t{shape.layers} + 1) * shape.experts;
  return slots_in_memory(shape) * layout.bytes + table_entries * element_bytes(NumberType::i32);
}

}  // namespace moetune
