#include "engine/background_loader.h"

#include <cassert>
#include <utility>

namespace moetune {

BackgroundLoader::BackgroundLoader(const ExpertStore& store) : store_(&store), thread_([this] { serve(); }) {}

BackgroundLoader::~BackgroundLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundLoader::start(std::vector<ExpertStore::Wanted> wanted) {
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
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BackgroundLoader::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || is_busy_; });
    if (!is_busy_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      for (const ExpertStore::Wanted& one : wanted_) store_->load(one.moe_layer, one.expert, one.destination);
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
