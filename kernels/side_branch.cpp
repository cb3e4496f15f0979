#include "kernels/side_branch.h"

#include <utility>
#include <variant>

#include "kernels/buffer.h"

#if MOETUNE_HAS_CUDA
#include "kernels/cuda_side_branch.h"
#endif

namespace moetune {
namespace {

struct Made {
  Device branch;
  std::unique_ptr<SideBranch::Ties> ties;
};
Made branch_of(Cpu& cpu) { return {cpu, nullptr}; }
#if MOETUNE_HAS_CUDA
Made branch_of(Cuda& cuda) {
  Cuda branch = cuda_on_the_same_gpu(cuda);
  return {branch, tie_streams(cuda, branch)};
}
#endif

}  // namespace

SideBranch::SideBranch(Device& device) : branch_(device) {
  Made made = std::visit([](auto& on) { return branch_of(on); }, device);
  branch_ = std::move(made.branch);
  ties_ = std::move(made.ties);
}

SideBranch::~SideBranch() {
  try {
    if (ties_) wait_for(branch_);
  } catch (...) {  // a device that has failed has nothing left to wait for
  }
}

void SideBranch::fork() {
  is_forked_ = true;
  if (ties_) ties_->fork();
}

void SideBranch::join() {
  if (std::exchange(is_forked_, false) && ties_) ties_->join();
}

}  // namespace moetune
