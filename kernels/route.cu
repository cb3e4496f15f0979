// One warp a token.
#include <stdexcept>

#include "kernels/cuda/pick.cuh"

namespace moetune {
namespace cuda {

PickRule rule_of(const Route& op, int experts) {
  if (experts > 32 * kMostPerLane || op.groups > kMostGroups)
    throw std::invalid_argument("routing among " + std::to_string(experts) + " experts in " +
                                std::to_string(op.groups) +
                                " groups (accepted: up to 1024 experts, 32 groups)");
  return {.experts = experts,
          .k = static_cast<int>(op.ids.dim(1)),
          .groups = op.groups,
          .kept_groups = op.kept_groups,
          .scale = op.scale,
          .is_softmax = op.rule == RouteRule::softmax,
          .is_sigmoid = op.rule == RouteRule::grouped_sigmoid_bias,
          .normalizes = op.normalize,
          .ids_are_given = op.ids_are_given};
}

}  // namespace cuda

namespace {

template <int slots>
__global__ void __launch_bounds__(32)
    route(cuda::Rows logits, const float* bias, std::int32_t* ids, std::int64_t ids_stride,
          cuda::Rows weights, cuda::PickRule rule) {
  extern __shared__ float shared[];
  cuda::let_next_start();
  cuda::wait_for_previous();
  cuda::pick_experts<slots>(logits.row(blockIdx.x), bias, rule, shared, ids + blockIdx.x * ids_stride,
                            weights.row(blockIdx.x));
}

}  // namespace

void run(Cuda& cuda, const Route& op) {
  const std::int64_t tokens = op.logits.dim(0);
  if (tokens == 0) return;
  const auto experts = static_cast<int>(op.logits.dim(1));
  const cuda::PickRule rule = cuda::rule_of(op, experts);
  const cuda::LaunchShape shape{.grid = dim3(static_cast<unsigned>(tokens)),
                                .threads = 32,
                                .shared_bytes = cuda::pick_floats(experts) * static_cast<int>(sizeof(float))};
  const float* bias = op.bias.empty() ? nullptr : op.bias.f32();
  const auto kernel = experts <= 128 ? route<4> : experts <= 256 ? route<8> : route<cuda::kMostPerLane>;
  cuda::launch(kernel, shape, cuda.state().stream, true, cuda::rows_of(op.logits), bias, op.ids.i32(),
               op.ids.stride(0), cuda::rows_of(op.weights), rule);
}

}  // namespace moetune
