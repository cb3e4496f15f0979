// Ops and copies beside the others of a device: what is enqueued on branch() between fork() and join()
// overlaps with what is enqueued on the device meanwhile. On a CPU everything is done when it returns, one
// after the other.
//
//   side.fork();                                    // behind everything enqueued on the device so far
//   copy_to_device(side.branch(), host, there, bytes);
//   run(device, ...);                               // beside the copy
//   side.join();
//   run(device, ...);                               // behind it
#pragma once

#include <memory>

#include "kernels/device.h"

namespace moetune {

class SideBranch {
 public:
  explicit SideBranch(Device& device);
  ~SideBranch();  // waits for the branch
  SideBranch(const SideBranch&) = delete;
  SideBranch& operator=(const SideBranch&) = delete;

  Device& branch() { return branch_; }
  // What runs on the branch from now on begins behind everything enqueued on the device so far.
  void fork();
  // What is enqueued on the device from now on begins behind everything on the branch; the host does not
  // wait. Nothing where nothing was forked. A graph that is being recorded must not end in between.
  void join();

  struct Ties {  // of two streams
    virtual ~Ties() = default;
    virtual void fork() = 0;
    virtual void join() = 0;
  };

 private:
  Device branch_;
  std::unique_ptr<Ties> ties_;  // null on a CPU
  bool is_forked_ = false;
};

}  // namespace moetune
