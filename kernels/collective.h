// AllReduce: sum over the ranks of a tensor-parallel group. In-process ranks meet in a LocalGroup; every rank
// adds the contributions in rank order, so all get the same bits.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

// Ranks that live as threads of one process. One rank that fails must call abort(), else the others wait for
// it for ever.
class LocalGroup {
 public:
  explicit LocalGroup(int ranks);
  ~LocalGroup();
  int ranks() const;
  void abort();  // wakes all waiting ranks; their collectives throw std::runtime_error

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct AllReduce {
  Tensor x;  // contiguous f32, the same shape on every rank; summed in place
  LocalGroup* group = nullptr;
  int rank = 0;
};
void run(Cpu& cpu, const AllReduce& op);
void run(Cuda& cuda, const AllReduce& op);

}  // namespace moetune
