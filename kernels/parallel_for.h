// The one threading seam. Everything that runs in parallel goes through ParallelPool: oneTBB normally, plain
// std::thread where MOETUNE_PARALLEL_THREADS is defined (ThreadSanitizer cannot see through Debian's libtbb).
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace moetune {

// A reference to something callable as body(begin, end); does not own it, so passing one allocates nothing.
class PieceBody {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, PieceBody> &&
             std::is_invocable_v<F&, std::int64_t, std::int64_t>)
  PieceBody(F&& body)  // NOLINT(google-explicit-constructor): a lambda is meant to be passed as it stands
      : body_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* callee, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(callee))(begin, end);
        }) {}

  void operator()(std::int64_t begin, std::int64_t end) const { call_(body_, begin, end); }

 private:
  void* body_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

class ParallelPool {
 public:
  // threads >= 1, the caller's own included.
  explicit ParallelPool(int threads);
  ~ParallelPool();
  ParallelPool(const ParallelPool&) = delete;
  ParallelPool& operator=(const ParallelPool&) = delete;

  int threads() const;

  // Calls body(begin, end) over disjoint pieces of [0, count), each at least grain long (but for the last),
  // and returns when all are done. Runs inline when one piece is enough, and inside another parallel_for's
  // body: a waiting thread that picked up someone else's piece would overwrite its own scratch memory. The
  // cut never changes results: every index is computed the same way in any piece. The first exception of a
  // body reaches the caller; pieces that have not begun by then may be skipped.
  void parallel_for(std::int64_t count, std::int64_t grain, PieceBody body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Cores this process may use: affinity mask and cgroup quota, at least 1.
int usable_cores();

}  // namespace moetune
