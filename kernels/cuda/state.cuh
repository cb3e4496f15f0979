// What stands behind a Cuda device: its stream and the scratch memory that ops share.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/device.h"

namespace moetune {

struct Cuda::State {
  int ordinal = 0;
  cudaStream_t stream = nullptr;
  int multiprocessors = 0;
  bool is_capturing = false;
  int scratch_generation =
      0;  // counts how often scratch() has moved: what a graph recorded before then is stale

  explicit State(int ordinal);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Memory for the intermediate results of one op; the next op may overwrite it. Grows, which waits for the
  // stream and cannot happen while a graph is captured: a step is run once before it is captured.
  void* scratch(std::size_t bytes);

  // At least `count` counters that are zero between ops: whoever counts sets them back. A fixed number,
  // allocated at the start, so that a captured graph may hold the address. Throws std::logic_error beyond it.
  int* counters(int count);

 private:
  static constexpr int kCounters = 1 << 16;
  int* counters_ = nullptr;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace moetune
