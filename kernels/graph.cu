#include <utility>

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda_graph.h"

namespace moetune {
namespace {

class CudaGraph : public Graph::Recorded {
 public:
  CudaGraph(const Cuda& cuda, cudaGraph_t graph) : cuda_(cuda) {
    Cuda::State& state = cuda_.state();
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    CUDA_TRY(error);
    CUDA_TRY(cudaGraphUpload(executable_, state.stream));
    generation_ = state.scratch_generation;
  }
  ~CudaGraph() override {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  bool is_current() const override { return generation_ == cuda_.state().scratch_generation; }
  void launch() override { CUDA_TRY(cudaGraphLaunch(executable_, cuda_.state().stream)); }

 private:
  mutable Cuda cuda_;
  int generation_ = 0;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

void begin_cuda_capture(Cuda& cuda) {
  CUDA_TRY(cudaStreamBeginCapture(cuda.state().stream, cudaStreamCaptureModeThreadLocal));
  cuda.state().is_capturing = true;
}

std::shared_ptr<Graph::Recorded> end_cuda_capture(Cuda& cuda) {
  cuda.state().is_capturing = false;
  cudaGraph_t graph = nullptr;
  CUDA_TRY(cudaStreamEndCapture(cuda.state().stream, &graph));
  std::size_t nodes = 0;
  if (const cudaError_t error = cudaGraphGetNodes(graph, nullptr, &nodes);
      error != cudaSuccess || nodes == 0) {
    cudaGraphDestroy(graph);
    CUDA_TRY(error);
    return nullptr;
  }
  return std::make_shared<CudaGraph>(cuda, graph);
}

void abandon_cuda_capture(Cuda& cuda) {
  if (!std::exchange(cuda.state().is_capturing, false)) return;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(cuda.state().stream, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
}

std::shared_ptr<Graph::Recorded> record_cuda_graph(Cuda& cuda, const std::function<void()>& ops) {
  begin_cuda_capture(cuda);
  try {
    ops();
  } catch (...) {
    abandon_cuda_capture(cuda);
    throw;
  }
  return end_cuda_capture(cuda);
}

}  // namespace moetune
