#include "kernels/core_seat.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/parallel_for.h"

namespace moetune {
namespace {

std::atomic<bool> keeps_cores{false};

struct Core {
  int number;
  int asking;
  int helping;

  std::pair<int, int> for_who_asks() const { return {asking, helping}; }
  int for_a_helper() const { return asking + helping; }
};

struct Seats {
  std::mutex mutex;
  std::vector<Core> cores;               // guarded by mutex
  std::atomic<std::int64_t> changes{0};  // of who asks
};
Seats& seats() {
  static Seats all;
  return all;
}

// A thread's own; gives the core back when the thread ends.
class Seat {
 public:
  ~Seat() {
    if (core_ < 0) return;
    Seats& all = seats();
    const std::lock_guard lock(all.mutex);
    leave(all);
  }

  void take(SeatOf whom) {
    Seats& all = seats();
    const auto is_settled = [&] {  // a helper looks again when those who ask have moved
      return whom_ == SeatOf::who_asks ||
             (whom == SeatOf::a_helper && seen_ == all.changes.load(std::memory_order_relaxed));
    };
    if (taken_ && is_settled()) return;
    const std::lock_guard lock(all.mutex);
    leave(all);
    const auto emptiest = whom == SeatOf::who_asks
                              ? std::ranges::min_element(all.cores, {}, &Core::for_who_asks)
                              : std::ranges::min_element(all.cores, {}, &Core::for_a_helper);
    sit(all, emptiest, whom);
  }

  void take_of_rank(int first, int rank, int ranks) {
    Seats& all = seats();
    const std::lock_guard lock(all.mutex);
    const auto origin = std::ranges::find(all.cores, first, &Core::number);
    if (origin == all.cores.end()) return;
    const auto cores = static_cast<std::int64_t>(all.cores.size());
    const std::int64_t apart = std::max<std::int64_t>(1, cores / ranks);
    const auto wanted = all.cores.begin() + (origin - all.cores.begin() + rank * apart) % cores;
    if (taken_ && core_ == wanted->number) return;
    leave(all);
    sit(all, wanted, SeatOf::who_asks);
  }

  int core() const { return core_; }

 private:
  // all.mutex is held
  void sit(Seats& all, std::vector<Core>::iterator core, SeatOf whom) {
    taken_ = true;
    whom_ = whom;
    if (whom == SeatOf::who_asks) ++all.changes;
    seen_ = all.changes;
    if (core == all.cores.end()) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core->number, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;  // not allowed here: it goes on wandering
    ++(whom == SeatOf::who_asks ? core->asking : core->helping);
    core_ = core->number;
  }

  void leave(Seats& all) {  // all.mutex is held
    if (core_ < 0) return;
    for (Core& core : all.cores)
      if (core.number == core_) --(whom_ == SeatOf::who_asks ? core.asking : core.helping);
    if (whom_ == SeatOf::who_asks) ++all.changes;
    core_ = -1;
  }

  bool taken_ = false;
  SeatOf whom_ = SeatOf::a_helper;
  std::int64_t seen_ = 0;  // Seats::changes
  int core_ = -1;
};
thread_local Seat my_seat;

}  // namespace

void keep_threads_on_cores() {
  usable_cores();  // counted now: a pinned thread would count one
  Seats& all = seats();
  const std::lock_guard lock(all.mutex);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (keeps_cores || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) all.cores.push_back({core, 0, 0});
  keeps_cores = true;
}

void take_core_seat(SeatOf whom) {
  if (keeps_cores.load(std::memory_order_relaxed)) my_seat.take(whom);
}

void take_core_seat_of_rank(int first, int rank, int ranks) {
  if (keeps_cores.load(std::memory_order_relaxed) && first >= 0) my_seat.take_of_rank(first, rank, ranks);
}

int core_of_this_thread() { return my_seat.core(); }

}  // namespace moetune
