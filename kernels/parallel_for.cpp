// Start at parallel_for(): it cuts the range, and Impl::run_pieces() spreads the pieces over threads. One
// Impl per backend.
#include "kernels/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <exception>

#include "kernels/core_seat.h"

#ifdef MOETUNE_PARALLEL_THREADS
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
#else
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#endif

namespace moetune {
namespace {

// More pieces than threads, so that a thread held up by other work does not hold up the whole op.
constexpr std::int64_t kPiecesPerThread = 4;

thread_local bool inside_a_piece = false;

// Marks this thread as working on a piece for as long as it lives.
class InsideAPiece {
 public:
  InsideAPiece() {
    take_core_seat(SeatOf::a_helper);  // who asked has a seat
    inside_a_piece = true;
  }
  ~InsideAPiece() { inside_a_piece = false; }
  InsideAPiece(const InsideAPiece&) = delete;
  InsideAPiece& operator=(const InsideAPiece&) = delete;
};

struct Cut {
  std::int64_t count;
  std::int64_t length;  // of every piece but the last
  std::int64_t pieces;

  void call(PieceBody body, std::int64_t piece) const {
    const InsideAPiece mark;
    const std::int64_t begin = piece * length;
    body(begin, std::min(begin + length, count));
  }
};

Cut cut_range(std::int64_t count, std::int64_t grain, int threads) {
  const std::int64_t wanted =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(grain, 1), 1, threads * kPiecesPerThread);
  const std::int64_t length = (count + wanted - 1) / wanted;
  return {count, length, (count + length - 1) / length};
}

}  // namespace

#ifdef MOETUNE_PARALLEL_THREADS

// Workers sleep until a job appears; all threads, the caller's too, then take pieces by counting up.
struct ParallelPool::Impl {
  explicit Impl(int thread_count) : threads(thread_count) {
    for (int worker = 1; worker < threads; ++worker) workers.emplace_back([this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    job_changed.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void run_pieces(const Cut& cut, PieceBody body) {
    const std::unique_lock only_caller(callers, std::try_to_lock);
    if (!only_caller.owns_lock()) {  // another thread keeps the workers busy: this one does its own work
      body(0, cut.count);
      return;
    }
    Job current{cut, body};
    {
      const std::lock_guard lock(mutex);
      job = &current;
      ++jobs_posted;
    }
    job_changed.notify_all();
    take_pieces(current);
    std::unique_lock lock(mutex);
    job = nullptr;  // a worker that wakes only now finds nothing
    job_changed.wait(lock, [&] { return current.workers_inside == 0; });
    if (current.failure) std::rethrow_exception(current.failure);
  }

  struct Job {
    Cut cut;
    PieceBody body;
    std::atomic<std::int64_t> next_piece{0};
    int workers_inside = 0;        // guarded by mutex
    std::exception_ptr failure{};  // guarded by mutex
  };

  void take_pieces(Job& current) {
    for (;;) {
      const std::int64_t piece = current.next_piece.fetch_add(1);
      if (piece >= current.cut.pieces) return;
      try {
        current.cut.call(current.body, piece);
      } catch (...) {
        current.next_piece = current.cut.pieces;
        const std::lock_guard lock(mutex);
        if (!current.failure) current.failure = std::current_exception();
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex);
    for (std::uint64_t seen = 0;;) {
      job_changed.wait(lock, [&] { return stopping || (job != nullptr && jobs_posted != seen); });
      if (stopping) return;
      seen = jobs_posted;
      Job& current = *job;
      ++current.workers_inside;
      lock.unlock();
      take_pieces(current);
      lock.lock();
      if (--current.workers_inside == 0) job_changed.notify_all();
    }
  }

  int threads;
  std::mutex callers;
  std::mutex mutex;
  std::condition_variable job_changed;
  Job* job = nullptr;             // guarded by mutex
  std::uint64_t jobs_posted = 0;  // guarded by mutex
  bool stopping = false;          // guarded by mutex
  std::vector<std::thread> workers;
};

#else

struct ParallelPool::Impl {
  explicit Impl(int thread_count) : threads(thread_count), arena(thread_count) {
    // oneTBB by itself starts no more workers in all than there are cores, and a pool would have fewer
    // threads than it says. The smallest of all limits counts, so there is a single one; arenas ask for no
    // more than they were made for.
    if (thread_count > 1)
      static const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 256);
  }

  void run_pieces(const Cut& cut, PieceBody body) {
    arena.execute([&] {
      tbb::parallel_for(
          std::int64_t{0}, cut.pieces, [&](std::int64_t piece) { cut.call(body, piece); },
          tbb::simple_partitioner{});
    });
  }

  int threads;
  tbb::task_arena arena;
};

#endif

ParallelPool::ParallelPool(int threads) {
  assert(threads >= 1);
  impl_ = std::make_unique<Impl>(threads);
}

ParallelPool::~ParallelPool() = default;

int ParallelPool::threads() const { return impl_->threads; }

void ParallelPool::parallel_for(std::int64_t count, std::int64_t grain, PieceBody body) {
  if (count <= 0) return;
  if (!inside_a_piece) take_core_seat();
  if (impl_->threads == 1 || count <= grain || inside_a_piece) {
    body(0, count);
    return;
  }
  const Cut cut = cut_range(count, grain, impl_->threads);
  if (cut.pieces == 1)
    body(0, count);
  else
    impl_->run_pieces(cut, body);
}

}  // namespace moetune
