#include "engine/rank_threads.h"

#include "kernels/core_seat.h"

namespace moetune {

RankThreads::RankThreads(int ranks) {
  for (int rank = 1; rank < ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::run(const std::function<void(int)>& work, const std::function<void()>& on_failure) {
  if (threads_.empty()) return work(0);
  take_core_seat();
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    on_failure_ = &on_failure;
    working_ = static_cast<int>(threads_.size());
    failure_ = nullptr;
    first_core_ = core_of_this_thread();
    ++rounds_;
  }
  changed_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return working_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

void RankThreads::serve(int rank) {
  for (std::uint64_t seen = 0;;) {
    int first_core = -1;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || rounds_ != seen; });
      if (stopping_) return;
      seen = rounds_;
      first_core = first_core_;
    }
    take_core_seat_of_rank(first_core, rank, static_cast<int>(threads_.size()) + 1);
    call(rank);
    const std::lock_guard lock(mutex_);
    if (--working_ == 0) changed_.notify_all();
  }
}

void RankThreads::call(int rank) {
  try {
    (*work_)(rank);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    (*on_failure_)();
  }
}

}  // namespace moetune
