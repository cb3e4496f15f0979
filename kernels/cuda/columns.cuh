// Activations as operand B: the eight bf16 a lane needs, from rows of f32 or bf16. Beyond the end of a row
// there are zeros.
#pragma once

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

// Eight consecutive elements of one row from `column` on. row null: zeros.
__device__ __forceinline__ uint4 eight_columns(const float* row, int column, int width) {
  if (row == nullptr || column >= width) return {0, 0, 0, 0};
  const float* from = row + column;
  float v[8];
  if (column + 8 <= width && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    const float4 low = *reinterpret_cast<const float4*>(from);
    const float4 high = *reinterpret_cast<const float4*>(from + 4);
    return {pack2(low.x, low.y), pack2(low.z, low.w), pack2(high.x, high.y), pack2(high.z, high.w)};
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = column + i < width ? from[i] : 0.0F;
  return {pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7])};
}

// bf16 rows padded with zeros to whole chunks, so that no bound need be checked.
__device__ __forceinline__ uint4 eight_columns(const __nv_bfloat16* row, int column, int) {
  if (row == nullptr) return {0, 0, 0, 0};
  return *reinterpret_cast<const uint4*>(row + column);
}

// Calls body(std::integral_constant<NumberType, type>) for every type that has tiles.
template <class Body>
void with_tile_type(NumberType type, const Body& body) {
  switch (type) {
    case NumberType::bf16:
      return body(std::integral_constant<NumberType, NumberType::bf16>{});
    case NumberType::f16:
      return body(std::integral_constant<NumberType, NumberType::f16>{});
    case NumberType::fp8:
      return body(std::integral_constant<NumberType, NumberType::fp8>{});
    case NumberType::int8:
      return body(std::integral_constant<NumberType, NumberType::int8>{});
    case NumberType::int4:
      return body(std::integral_constant<NumberType, NumberType::int4>{});
    case NumberType::int4_g32:
      return body(std::integral_constant<NumberType, NumberType::int4_g32>{});
    case NumberType::mxfp4:
      return body(std::integral_constant<NumberType, NumberType::mxfp4>{});
    case NumberType::f32:
    case NumberType::i32:
      break;
  }
  throw std::invalid_argument("no tiles of " + std::string(name_of(type)));
}

// Sums of a warp's tile as a (16, 8 NT) block in shared memory, row by row.
template <int NT>
__device__ __forceinline__ void store_sums(float* block, const float (&sums)[NT][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int n = 0; n < NT; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      block[(i / 2 * 8 + lane / 4) * (8 * NT) + 8 * n + lane % 4 * 2 + i % 2] = sums[n][i];
}

}  // namespace moetune::cuda
