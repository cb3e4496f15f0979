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

// One GPU: its memory and a stream on which ops run in order. Declared everywhere, built where there is a
// CUDA toolkit.
class Cuda {
 public:
  // Throws std::runtime_error saying why when there is no such GPU or no driver.
  explicit Cuda(int ordinal = 0);
  void synchronize();  // until everything enqueued is done
  static int count();  // usable GPUs; 0 without a driver

  struct State;  // kernels/cuda/state.cuh
  State& state() { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

#if MOETUNE_HAS_CUDA
using Device = std::variant<Cpu, Cuda>;
#else
using Device = std::variant<Cpu>;
#endif

}  // namespace moetune
