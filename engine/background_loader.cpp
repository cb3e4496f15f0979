#include "engine/background_loader.h"

#include <cassert>
#include <utility>

#include "kernels/buffer.h"

namespace moetune {

BackgroundLoader::BackgroundLoader(Device& device, const ExpertStore& store) : store_(&store), side_(device) {
  const bool is_host_memory = shares_host_memory(device);
  if (!is_host_memory && store.in_memory() != nullptr) return;
  if (!is_host_memory) staging_.resize(static_cast<std::size_t>(store.layout().bytes));
  thread_ = std::thread([this] { serve(); });
}

BackgroundLoader::~BackgroundLoader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundLoader::start(std::vector<ExpertStore::Wanted> wanted) {
  side_.fork();
  if (!thread_.joinable()) {
    for (const ExpertStore::Wanted& one : wanted)
      copy_to_device(side_.branch(), store_->in_memory(one.moe_layer, one.expert), one.destination,
                     store_->layout().bytes);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    assert(!is_busy_);
    wanted_ = std::move(wanted);
    is_busy_ = true;
  }
  changed_.notify_all();
}

void BackgroundLoader::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !is_busy_; });
  side_.join();  // also of a batch that failed: its slots are given to others
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BackgroundLoader::load(const ExpertStore::Wanted& wanted) {
  if (staging_.empty()) return store_->load(wanted.moe_layer, wanted.expert, wanted.destination);
  store_->load(wanted.moe_layer, wanted.expert, staging_.data());
  copy_to_device(side_.branch(), staging_.data(), wanted.destination, store_->layout().bytes);
}

void BackgroundLoader::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || is_busy_; });
    if (!is_busy_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      for (const ExpertStore::Wanted& one : wanted_) load(one);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace moetune
