#include "kernels/cuda/check.cuh"
#include "kernels/cuda/state.cuh"
#include "kernels/cuda_graph.h"

namespace moetune {
namespace {

class CudaGraph : public Graph::Recorded {
 public:
  CudaGraph(const Cuda& cuda, const std::function<void()>& ops) : cuda_(cuda) {
    Cuda::State& state = cuda_.state();
    CUDA_TRY(cudaStreamBeginCapture(state.stream, cudaStreamCaptureModeThreadLocal));
    state.is_capturing = true;
    cudaGraph_t graph = nullptr;
    try {
      ops();
    } catch (...) {
      state.is_capturing = false;
      cudaStreamEndCapture(state.stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    state.is_capturing = false;
    CUDA_TRY(cudaStreamEndCapture(state.stream, &graph));
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

std::shared_ptr<Graph::Recorded> record_cuda_graph(Cuda& cuda, const std::function<void()>& ops) {
  return std::make_shared<CudaGraph>(cuda, ops);
}

}  // namespace moetune
