#include "kernels/cuda/columns.cuh"

namespace moetune::cuda {
namespace {

__global__ void narrow_rows(Rows from, int in, int width, __nv_bfloat16* to) {
  let_next_start();
  wait_for_previous();
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (column >= width) return;
  const float* row = from.row(blockIdx.y);
  *reinterpret_cast<uint2*>(to + std::int64_t{blockIdx.y} * width + column) =
      packed(four_of(row, column, in, reinterpret_cast<std::uintptr_t>(row) % 16 == 0));
}

__device__ __forceinline__ float gated(float gate, float up) { return gate / (1.0F + __expf(-gate)) * up; }

__global__ void gate_rows(Rows gate, Rows up, int in, int width, __nv_bfloat16* to) {
  let_next_start();
  wait_for_previous();
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (column >= width) return;
  const float* gate_row = gate.row(blockIdx.y);
  const float* up_row = up.row(blockIdx.y);
  const float4 g = four_of(gate_row, column, in, reinterpret_cast<std::uintptr_t>(gate_row) % 16 == 0);
  const float4 u = four_of(up_row, column, in, reinterpret_cast<std::uintptr_t>(up_row) % 16 == 0);
  *reinterpret_cast<uint2*>(to + std::int64_t{blockIdx.y} * width + column) =
      packed({gated(g.x, u.x), gated(g.y, u.y), gated(g.z, u.z), gated(g.w, u.w)});
}

// A block a row, which it keeps in its cache between the two passes.
constexpr int kNormThreads = 256;
__global__ void __launch_bounds__(kNormThreads)
    norm_rows(Rows from, const float* norm, float eps, int in, int width, __nv_bfloat16* to) {
  __shared__ float partial[kNormThreads / 32];
  let_next_start();
  wait_for_previous();
  const float* row = from.row(blockIdx.x);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  const bool is_norm_aligned = reinterpret_cast<std::uintptr_t>(norm) % 16 == 0;
  const int first = static_cast<int>(threadIdx.x) * 4;
  float squares = 0.0F;
  for (int column = first; column < in; column += 4 * kNormThreads) {
    const float4 v = four_of(row, column, in, is_aligned);
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  squares = warp_sum(squares);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
  __syncthreads();
  squares = 0.0F;
  for (const float part : partial) squares += part;
  const float inverse = rsqrtf(squares / static_cast<float>(in) + eps);
  for (int column = first; column < width; column += 4 * kNormThreads) {
    const float4 v = four_of(row, column, in, is_aligned);
    const float4 by = four_of(norm, column, in, is_norm_aligned);
    *reinterpret_cast<uint2*>(to + std::int64_t{blockIdx.x} * width + column) =
        packed({v.x * inverse * by.x, v.y * inverse * by.y, v.z * inverse * by.z, v.w * inverse * by.w});
  }
}

}  // namespace

void to_gated_bf16_rows(Cuda& cuda, Rows gate, Rows up, int rows, int in, int width, __nv_bfloat16* to) {
  launch(gate_rows, {.grid = dim3(blocks_for(width, 1024), static_cast<unsigned>(rows)), .threads = 256},
         cuda.state().stream, true, gate, up, in, width, to);
}

void to_normed_bf16_rows(Cuda& cuda, Rows from, const float* norm, float eps, int rows, int in, int width,
                         __nv_bfloat16* to) {
  launch(norm_rows, {.grid = dim3(static_cast<unsigned>(rows)), .threads = kNormThreads}, cuda.state().stream,
         true, from, norm, eps, in, width, to);
}

void to_bf16_rows(Cuda& cuda, Rows from, int rows, int in, int width, __nv_bfloat16* to) {
  launch(narrow_rows, {.grid = dim3(blocks_for(width, 1024), static_cast<unsigned>(rows)), .threads = 256},
         cuda.state().stream, true, from, in, width, to);
}

}  // namespace moetune::cuda
