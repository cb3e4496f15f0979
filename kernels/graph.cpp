#include "kernels/graph.h"

#include <utility>

#if MOETUNE_HAS_CUDA
#include "kernels/cuda_graph.h"
#endif

namespace moetune {
namespace {

struct RunAgain : Graph::Recorded {
  explicit RunAgain(std::function<void()> what) : ops(std::move(what)) {}
  bool is_current() const override { return true; }
  void launch() override { ops(); }
  std::function<void()> ops;
};

std::shared_ptr<Graph::Recorded> record(Cpu&, std::function<void()> ops) {
  return std::make_shared<RunAgain>(std::move(ops));
}
#if MOETUNE_HAS_CUDA
std::shared_ptr<Graph::Recorded> record(Cuda& cuda, const std::function<void()>& ops) {
  return record_cuda_graph(cuda, ops);
}
#endif

}  // namespace

Graph::Graph(Device& device, std::function<void()> ops)
    : recorded_(std::visit([&](auto& backend) { return record(backend, std::move(ops)); }, device)) {}

void Graph::launch() const { recorded_->launch(); }

}  // namespace moetune
