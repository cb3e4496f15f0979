// Start at run(): every rank sums its share of the elements and writes the sum into everybody's tensor,
// between two meetings of all ranks.
#include "kernels/collective.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace moetune {
namespace {

constexpr std::int64_t kShareUnit = 16;  // floats of a cache line: two ranks never write to the same one
constexpr std::uint64_t kAborted = 1;    // lowest bit of State::phase; the rest counts meetings

// Waiting ranks look this often before they go to sleep: about 20 us, the time the other ranks are late by
// when all have a core of their own. Going to sleep and being woken costs more than that.
constexpr int kLooksBeforeSleep = 4000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

struct LocalGroup::State {
  explicit State(int rank_count) : ranks(rank_count), tensors(static_cast<std::size_t>(rank_count)) {}

  enum class OnAbort : std::uint8_t { fail, ignore };

  // Waits until all ranks are here. Whether a meeting took place or was aborted is decided under the mutex,
  // once for all: either every rank leaves it normally or every rank throws. Ranks that write to each other's
  // tensors must all come to the meeting that follows, and ignore an abort until then.
  void meet(OnAbort on_abort) {
    const bool fails = on_abort == OnAbort::fail;
    std::uint64_t seen;
    {
      const std::lock_guard lock(mutex);
      seen = phase.load();
      if (fails && (seen & kAborted) != 0) fail();
      if (++arrived == ranks) {
        arrived = 0;
        phase.store(seen + 2);
        phase.notify_all();
        return;
      }
    }
    for (int look = 0;; ++look) {
      const std::uint64_t now = phase.load(std::memory_order_acquire);
      if (now >> 1 != seen >> 1) return;
      if (fails && (now & kAborted) != 0) fail();
      if (look < looks_before_sleep)
        pause_briefly();
      else
        phase.wait(now);
    }
  }

  void abort() {
    const std::lock_guard lock(mutex);
    phase.store(phase.load() | kAborted);
    phase.notify_all();
  }

  [[noreturn]] static void fail() {
    throw std::runtime_error("all-reduce: another rank of the group failed");
  }

  const int ranks;
  const int looks_before_sleep = usable_cores() >= ranks ? kLooksBeforeSleep : 0;
  std::vector<Tensor> tensors;  // one per rank, written before the first meeting and read after it
  std::mutex mutex;
  int arrived = 0;  // guarded by mutex
  std::atomic<std::uint64_t> phase{0};
};

LocalGroup::LocalGroup(int ranks) : state_(std::make_unique<State>(ranks)) { assert(ranks >= 1); }
LocalGroup::~LocalGroup() = default;
int LocalGroup::ranks() const { return state_->ranks; }
void LocalGroup::abort() { state_->abort(); }

void run(Cpu&, const AllReduce& op) {
  assert(op.group != nullptr && op.x.contiguous());
  LocalGroup::State& group = op.group->state();
  assert(op.rank >= 0 && op.rank < group.ranks);
  if (group.ranks == 1) return;

  group.tensors[static_cast<std::size_t>(op.rank)] = op.x;
  group.meet(LocalGroup::State::OnAbort::fail);
  const std::int64_t count = op.x.elements();
  const std::int64_t units = (count + kShareUnit - 1) / kShareUnit;
  const std::int64_t begin = units * op.rank / group.ranks * kShareUnit;
  const std::int64_t end = std::min(count, units * (op.rank + 1) / group.ranks * kShareUnit);
  for (std::int64_t i = begin; i < end; ++i) {
    float sum = 0.0F;
    for (const Tensor& x : group.tensors) sum += x.f32()[i];
    for (const Tensor& x : group.tensors) x.f32()[i] = sum;
  }
  group.meet(LocalGroup::State::OnAbort::ignore);
}

}  // namespace moetune
