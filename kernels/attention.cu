#include "kernels/attention.h"

#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/attend_prompt.cuh"
#include "kernels/cuda/cache_number.cuh"

namespace moetune {
namespace {

// A warp a head's part of a row: an int8 cache has a scale for each.
template <class Number>
__global__ void __launch_bounds__(128)
    store_kv(cuda::Rows rows, const std::int32_t* sequences, const std::int32_t* positions, Number* cache,
             std::int64_t slot_stride, std::int64_t row_stride, float* scales, std::int64_t scale_slot_stride,
             int heads, int width) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t token = blockIdx.y;
  const int head = static_cast<int>(blockIdx.x) * 4 + static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (head >= heads) return;
  const float* from = rows.row(token) + head * width;
  Number* to = cache + sequences[token] * slot_stride + positions[token] * row_stride + head * width;
  float scale = 0.0F;
  if constexpr (cuda::kHasCacheScales<Number>) {
    float largest = 0.0F;
    for (int column = lane; column < width; column += 32) largest = fmaxf(largest, fabsf(from[column]));
    scale = cuda::cache_scale(cuda::warp_max(largest));
    if (lane == 0)
      scales[sequences[token] * scale_slot_stride + std::int64_t{positions[token]} * heads + head] = scale;
  }
  for (int column = lane; column < width; column += 32)
    to[column] = cuda::cached<Number>(from[column], scale);
}

}  // namespace

void run(Cuda& cuda, const StoreKv& op) {
  if (op.rows.dim(0) * op.rows.dim(1) == 0) return;
  const auto heads = op.scales.empty() ? 1 : static_cast<int>(op.scales.dim(2));
  cuda::with_cache_type(op.cache.type(), [&](auto number) {
    using Number = decltype(number);
    cuda::launch(
        store_kv<Number>,
        {.grid = dim3(cuda::blocks_for(heads, 4), static_cast<unsigned>(op.rows.dim(0))), .threads = 128},
        cuda.state().stream, true, cuda::rows_of(op.rows), op.sequences.i32(), op.positions.i32(),
        static_cast<Number*>(op.cache.data()), op.cache.stride(0), op.cache.stride(1),
        op.scales.empty() ? nullptr : op.scales.f32(), op.scales.empty() ? 0 : op.scales.stride(0), heads,
        static_cast<int>(op.rows.dim(1)) / heads);
  });
}

cuda::AttendCall cuda::call_of(const Attention& op) {
  const auto head_dim = static_cast<int>(op.q.dim(2));
  AttendCall call{.type = op.k_cache.type(),
                  .shape = {.tokens = static_cast<int>(op.q.dim(0)),
                            .heads = static_cast<int>(op.q.dim(1)),
                            .kv_heads = op.kv_heads,
                            .key_width = head_dim,
                            .value_width = head_dim,
                            .window = op.window,
                            .capacity = static_cast<int>(op.k_cache.dim(1)),
                            .scale = op.scale}};
  AttendInputs& in = call.inputs;
  in.q = op.q.f32();
  in.q_strides = {op.q.stride(0), op.q.stride(1)};
  in.q_width = head_dim;
  in.keys = op.k_cache.data();
  in.values = op.v_cache.data();
  in.slot_stride = op.k_cache.stride(0);
  in.row_stride = op.k_cache.stride(1);
  in.head_stride = head_dim;
  if (!op.k_scales.empty()) {
    in.key_scales = op.k_scales.f32();
    in.value_scales = op.v_scales.f32();
    in.scale_slot_stride = op.k_scales.stride(0);
  }
  in.sequences = op.sequences.i32();
  in.positions = op.positions.i32();
  in.y = op.y.f32();
  in.y_strides = {op.y.stride(0), op.y.stride(1)};
  return call;
}

void run(Cuda& cuda, const Attention& op) {
  const cuda::AttendCall call = cuda::call_of(op);
  if (cuda::attends_as_prompt(call.type, call.shape, call.inputs, op.runs))
    return cuda::attend_prompt(cuda, call.shape, call.inputs);
  cuda::attend(cuda, call.type, call.shape, call.inputs);
}

}  // namespace moetune
