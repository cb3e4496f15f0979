// The one threading seam. Everything that runs in parallel goes through ParallelPool: oneTBB normally, plain std::thread
// where MOETUNE_PARALLEL_THREADS is defined (ThreadSanitizer cannot see through Debian's libtbb).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace moetune {

class ParallelPool {
 public:
  // threads >= 1, the caller's own included.
  explicit ParallelPool(int threads);
  ~ParallelPool();
  ParallelPool(const ParallelPool&) = delete;
  ParallelPool& operator=(const ParallelPool&) = delete;

  int threads() const;

  // Calls body(begin, end) over disjoint pieces of [0, count), each at least grain long (but for the last). Runs inline
  // when one piece is enough. The cut never changes results: every index is computed the same way in any piece.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Cores this process may use: affinity mask and cgroup quota, at least 1.
int usable_cores();

}  // namespace moetune
