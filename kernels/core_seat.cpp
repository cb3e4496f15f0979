#include "kernels/core_seat.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/parallel_for.h"

namespace moetune {
namespace {

std::atomic<bool> keeps_cores{false};

struct Core {
  int number;
  int sitting;
};

struct Seats {
  std::mutex mutex;
  std::vector<Core> cores;  // guarded by mutex
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
    for (Core& core : all.cores)
      if (core.number == core_) --core.sitting;
  }

  void take() {
    if (asked_) return;
    asked_ = true;
    Seats& all = seats();
    const std::lock_guard lock(all.mutex);
    const auto emptiest = std::ranges::min_element(all.cores, {}, &Core::sitting);
    if (emptiest == all.cores.end()) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(emptiest->number, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) return;  // not allowed here: it goes on wandering
    ++emptiest->sitting;
    core_ = emptiest->number;
  }
  int core() const { return core_; }

 private:
  bool asked_ = false;
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
    if (CPU_ISSET(core, &allowed)) all.cores.push_back({core, 0});
  keeps_cores = true;
}

void take_core_seat() {
  if (keeps_cores.load(std::memory_order_relaxed)) my_seat.take();
}

int core_of_this_thread() { return my_seat.core(); }

}  // namespace moetune
