// Small steps and large ones: the experts' kernels with one expert that everyone chose. Else products one
// after the other.
#include "kernels/feed_forward.h"

#include "kernels/cuda/everyone.cuh"
#include "kernels/cuda/ffn_few.cuh"
#include "kernels/cuda/prompt_ops.cuh"
#include "kernels/gemm.h"
#include "kernels/swiglu.h"

namespace moetune {
namespace {

constexpr std::int64_t kMostSmallTokens = 8;

}  // namespace

void run(Cuda& cuda, const FeedForward& op) {
  const auto tokens = static_cast<int>(op.x.dim(0));
  if (tokens == 0) return;
  const bool takes_prompt = cuda::is_uniform(op) && cuda::takes_prompt(tokens);
  if (takes_prompt && cuda::takes_cublas_for_ffn(op.gate.layout, tokens)) return cuda::cublas_ffn(cuda, op);
  if (takes_prompt)
    return cuda::prompt_ffn(cuda, {.x = cuda::rows_of(op.x),
                                   .tokens = tokens,
                                   .gate = op.gate.layout,
                                   .up = op.up.layout,
                                   .down = op.down.layout,
                                   .gate_data = op.gate.data,
                                   .up_data = op.up.data,
                                   .down_data = op.down.data,
                                   .y = cuda::rows_of(op.y),
                                   .accumulates = true});
  if (!cuda::is_uniform(op) || tokens > kMostSmallTokens) {
    run(cuda, Gemm{.x = op.x, .w = op.gate, .y = op.gated});
    run(cuda, Gemm{.x = op.x, .w = op.up, .y = op.upped});
    run(cuda, SwiGlu{.gate = op.gated, .up = op.upped, .y = op.gated});
    return run(cuda, Gemm{.x = op.gated, .w = op.down, .y = op.y, .accumulate = true});
  }
  cuda::FfnWork work = cuda::everyone_takes(op);
  const std::int64_t activated = tokens * work.activated_stride * static_cast<std::int64_t>(sizeof(float));
  work.activated = static_cast<unsigned char*>(cuda.state().scratch(static_cast<std::size_t>(
      activated + tokens * cuda::padded_width(op.gate.layout) * std::int64_t{sizeof(__nv_bfloat16)})));
  work.x16 = reinterpret_cast<__nv_bfloat16*>(work.activated + activated);
  if (const NumberType type = op.gate.layout.type; cuda::is_few(type, work)) {
    work.is_activated_f32 = true;
    cuda::run_gate_up_few(cuda, type, work);
    return cuda::run_down_few(cuda, type, work, {}, cuda::rows_of(op.y));
  }
  work.is_activated_f32 = cuda::activates_f32(op.down.layout.type, work);
  cuda::run_gate_up(cuda, op.gate.layout.type, work);
  cuda::run_down_joined(cuda, op.down.layout.type, work, {}, cuda::rows_of(op.y));
}

}  // namespace moetune
