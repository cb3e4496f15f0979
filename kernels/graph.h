// A sequence of ops recorded once and launched as one: on a GPU a CUDA graph, on a CPU the ops themselves,
// run again.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device.h"

namespace moetune {

class Graph {
 public:
  Graph() = default;
  // Records what ops() enqueues on the device. On a GPU ops() runs nothing now and must wait for nothing;
  // every op in it must have run once before (memory grows then). What a later launch reads lies at the same
  // places. Throws std::runtime_error when the device refuses.
  Graph(Device& device, std::function<void()> ops);

  // False once memory that it uses has moved (an op needed more scratch): it must be recorded again.
  bool is_current() const { return recorded_ != nullptr && recorded_->is_current(); }
  void launch() const;  // enqueues; on a CPU the work is done when it returns

  struct Recorded {
    virtual ~Recorded() = default;
    virtual bool is_current() const = 0;
    virtual void launch() = 0;
  };

 private:
  std::shared_ptr<Recorded> recorded_;
};

}  // namespace moetune
