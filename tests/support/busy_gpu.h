// A GPU that has no place for another kernel until a time has passed: whoever returns before then has waited
// for nothing.
#pragma once

#include <memory>

namespace moetune::testing {

class BusyGpu {
 public:
  // Returns once every multiprocessor is full. Throws std::runtime_error when the device refuses.
  explicit BusyGpu(double milliseconds);
  ~BusyGpu();
  BusyGpu(const BusyGpu&) = delete;
  BusyGpu& operator=(const BusyGpu&) = delete;

  // Has a block given up its place? Read from memory that the kernel writes: asks no driver.
  bool is_ending() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moetune::testing
