// The part of ExpertCache that brings experts in before they are asked for.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "engine/expert_cache.h"

namespace moetune {

// Wanted experts that are there already are held first: making room for one guess must not throw out another.
void ExpertCache::fetch_ahead(int moe_layer, std::span<const std::int32_t> experts) {
  if (is_resident() || experts.empty()) return;
  wait_for_ahead();
  if (!is_last_wave()) return;  // a step that failed in the middle of a layer
  const std::span<const std::int32_t> table = directory_.table(moe_layer);
  for (const std::int32_t expert : experts)
    if (table[static_cast<std::size_t>(expert)] >= 0) directory_.hold(moe_layer, expert);
  settle_ahead();  // guesses for a layer that did not come, as after a step that failed
  ahead_layer_ = moe_layer;
  std::vector<ExpertStore::Wanted> wanted;
  for (const std::int32_t expert : experts) {
    if (table[static_cast<std::size_t>(expert)] >= 0) continue;
    const auto placement = directory_.place(moe_layer, expert);
    if (!placement) break;  // everything else is in use
    counters_.evictions += placement->evicted ? 1 : 0;
    ahead_.push_back(expert);
    wanted.push_back({moe_layer, expert, slot_data(placement->slot)});
  }
  if (wanted.empty()) return;
  upload_changed_tables(moe_layer);
  counters_.ahead += std::ssize(wanted);
  start_loading(std::move(wanted));
}

void ExpertCache::fetch_ahead_on_device(int moe_layer, const Tensor& ids, bool is_between_steps) {
  {
    const OpScope scope(recorder_, Activity::expert_copy);
    look_up_->place_ahead(moe_layer, ids, is_between_steps);
  }
  const MarkScope beside(recorder_, Mark::beside);
  const OpScope scope(recorder_, Activity::expert_copy);
  look_up_->fetch_beside();
}

// No guess: they count as brought in because they were asked for.
void ExpertCache::promote_outside() {
  if (store_->in_memory() == nullptr) return;
  wait_for_ahead();
  settle_ahead();
  ahead_layer_ = moe_layer_;
  std::vector<ExpertStore::Wanted> wanted;
  for (const std::int32_t expert :
       std::span(outside_).first(std::min<std::size_t>(most_promoted, outside_.size()))) {
    const auto placement = directory_.place(moe_layer_, expert);
    if (!placement) break;
    counters_.evictions += placement->evicted ? 1 : 0;
    ahead_.push_back(expert);
    wanted.push_back({moe_layer_, expert, slot_data(placement->slot)});
  }
  if (wanted.empty()) return;
  upload_changed_tables(moe_layer_);
  counters_.bytes_read += std::ssize(wanted) * layout().bytes;
  start_loading(std::move(wanted));
  ahead_.clear();  // reading memory does not fail any more
}

void ExpertCache::start_loading(std::vector<ExpertStore::Wanted> wanted) {
  if (!loader_) loader_ = std::make_unique<BackgroundLoader>(*device_, *store_);
  ahead_is_under_way_ = true;
  try {
    loader_->start(std::move(wanted));
  } catch (...) {
    give_up_ahead();
    throw;
  }
}

// What was not brought in must not be taken for resident later.
void ExpertCache::give_up_ahead() {
  ahead_is_under_way_ = false;
  for (const std::int32_t expert : ahead_) directory_.remove(ahead_layer_, expert);
  ahead_.clear();
  upload_changed_tables(ahead_layer_);
}

void ExpertCache::wait_for_ahead() {
  if (!ahead_is_under_way_) return;
  const auto start = std::chrono::steady_clock::now();
  const OpScope scope(recorder_, Activity::expert_copy);
  try {
    loader_->wait();
  } catch (...) {
    give_up_ahead();
    throw;
  }
  ahead_is_under_way_ = false;
  counters_.load_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ExpertCache::settle_ahead() {
  for (const std::int32_t expert : ahead_)
    if (ahead_layer_ != moe_layer_ || seen_[static_cast<std::size_t>(expert)] != layer_steps_)
      ++counters_.ahead_in_vain;
  ahead_.clear();
}

void ExpertCache::prewarm(std::span<const HotExpert> hottest_first) {
  if (is_resident()) return;
  clear();
  std::vector<HotExpert> chosen;
  for (const HotExpert& hot : hottest_first) {
    const std::span<const std::int32_t> table = directory_.table(hot.moe_layer);
    if (table[static_cast<std::size_t>(hot.expert)] < 0 && directory_.place(hot.moe_layer, hot.expert))
      chosen.push_back(hot);
  }
  // The hottest one was asked for last.
  for (auto hot = chosen.rbegin(); hot != chosen.rend(); ++hot)
    directory_.look_up(hot->moe_layer, hot->expert);
  directory_.release_all();
  std::vector<ExpertStore::Wanted> wanted;
  for (const HotExpert& hot : chosen)
    wanted.push_back({hot.moe_layer, hot.expert,
                      slot_data(directory_.table(hot.moe_layer)[static_cast<std::size_t>(hot.expert)])});
  try {
    store_->load_all(*device_, *host_, wanted);
  } catch (...) {
    clear();
    throw;
  }
  if (look_up_) {
    look_up_->take_over(directory_.record());
    directory_ = SlotDirectory(directory_.shape());  // from here on the device's own is the only one
  } else {
    upload_all_tables();
  }
}

}  // namespace moetune
