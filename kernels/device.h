// The devices an op can run on. Nothing above kernels/ knows which one it got. Start at Device; run.h is the
// seam.
#pragma once

#include <memory>
#include <variant>

#include "kernels/parallel_for.h"

namespace moetune {

// The processor itself: a number of threads that work on one op at a time.
class Cpu {
 public:
  // threads: 0 means all this process may use.
  explicit Cpu(int threads = 0);
  ParallelPool& pool() { return *pool_; }
  int threads() const;

 private:
  std::shared_ptr<ParallelPool> pool_;
};

using Device = std::variant<Cpu>;

}  // namespace moetune
