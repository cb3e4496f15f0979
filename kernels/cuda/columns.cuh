// Activations as operand B of a tile's products: the part of up to eight rows that a warp needs, as bf16 in
// shared memory (StagedColumns), or any number of rows in global memory (GlobalColumns). Start at
// stage_columns().
//
// Staged, a warp waits once for all of its part; chunk by chunk it would wait for the L2 cache each time
// (measured on an H200: 5 us of a 9 us product). Each warp stages for itself, so that none waits for the
// others.
#pragma once

#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/tile_stream.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune::cuda {

inline constexpr int kStagedRows = 8;
inline constexpr int kStagedBytes = 48 * 1024;  // most that the rows of a block's warps may take
inline constexpr int kZeroBytes = 256;          // of one chunk: what lanes without a row read

// Four neighbouring elements of a row from `column`, a multiple of 4; zeros beyond its end.
__device__ __forceinline__ float4 four_of(const float* row, int column, int in, bool is_aligned) {
  if (is_aligned && column + 4 <= in) return *reinterpret_cast<const float4*>(row + column);
  return {column < in ? row[column] : 0.0F, column + 1 < in ? row[column + 1] : 0.0F,
          column + 2 < in ? row[column + 2] : 0.0F, column + 3 < in ? row[column + 3] : 0.0F};
}
__device__ __forceinline__ uint2 packed(const float4& v) { return {pack2(v.x, v.y), pack2(v.z, v.w)}; }
__device__ __forceinline__ float4 unpacked(const uint2& bits) {
  return {__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xFFFF0000U), __uint_as_float(bits.y << 16),
          __uint_as_float(bits.y & 0xFFFF0000U)};
}

// Up to four tokens leave columns of the products unused: a row is then staged twice, as bf16 and as what the
// rounding lost, and both products are added: sixteen bits of mantissa at the price of eight.
inline constexpr int kSplitTokens = 4;
__host__ __device__ inline int parts_for(int tokens) { return tokens <= kSplitTokens ? 2 : 1; }
// Where a warp's part lies in shared memory: zeros, then the rows.
// Rows that are read together begin in different banks.
__host__ __device__ inline int staged_row_bytes(int width) { return width * 2 + 64; }

// Bytes of one warp's part of `width` columns (whole chunks), 0 where `warps` of them take too much. From
// capacities alone.
inline int staged_bytes(int rows, int width, int warps) {
  const int bytes = kZeroBytes + rows * staged_row_bytes(width);
  return rows <= kStagedRows && warps * bytes <= kStagedBytes ? bytes : 0;
}

// Fills a warp's part at `at` with columns [first, first + width) of `count` rows; with two parts the
// rounding errors follow as rows [count, 2 count). row_of(row) is where a row lies, asked for once; load(its
// place, column) reads four elements; use(row, what was read) makes the four that are staged. All lanes take
// part; synchronises the warp.
template <class RowOf, class Load, class Use>
__device__ __forceinline__ void stage_columns(unsigned char* at, int count, int parts, int first, int width,
                                              const RowOf& row_of, const Load& load, const Use& use) {
  // Read together before the first is stored: the compiler does not move a read in front of a store, and one
  // after the other each would wait for the L2 cache.
  constexpr int kTogether = 4;
  const int quads = width / 4;
  const int lane = static_cast<int>(threadIdx.x % 32);
  reinterpret_cast<uint2*>(at)[lane] = {0, 0};
  static_assert(kZeroBytes == 256);
  using Place = decltype(row_of(0));
  const auto my_place =
      reinterpret_cast<unsigned long long>(row_of(min(lane, max(count, 1) - 1)));  // a lane a row
  int row = 0;
  int quad = lane;
  while (quad >= quads) quad -= quads, ++row;
  while (__any_sync(0xFFFFFFFFU, row < count)) {
    decltype(load(Place{}, 0)) read[kTogether];
    int rows_read[kTogether];
    int quads_read[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      rows_read[i] = row;
      quads_read[i] = quad;
      const auto place = reinterpret_cast<Place>(__shfl_sync(0xFFFFFFFFU, my_place, row));
      if (row < count) read[i] = load(place, first + quad * 4);
      quad += 32;
      while (quad >= quads) quad -= quads, ++row;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (rows_read[i] >= count) break;
      const float4 v = use(rows_read[i], read[i]);
      const uint2 bits = packed(v);
      unsigned char* to = at + kZeroBytes + rows_read[i] * staged_row_bytes(width) + quads_read[i] * 8;
      *reinterpret_cast<uint2*>(to) = bits;
      if (parts == 1) continue;
      const float4 kept = unpacked(bits);
      *reinterpret_cast<uint2*>(to + count * staged_row_bytes(width)) =
          packed({v.x - kept.x, v.y - kept.y, v.z - kept.z, v.w - kept.w});
    }
  }
  __syncwarp();
}

// A lane's view of staged rows.
template <NumberType type>
class StagedColumns {
 public:
  // first_chunk, width: of the part; row: of the lane's column, when it exists.
  __device__ __forceinline__ StagedColumns(const unsigned char* at, int row, bool exists, int first_chunk,
                                           int width)
      : first_chunk_(first_chunk) {
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
    const int t = static_cast<int>(threadIdx.x % 4);
    const auto first = static_cast<std::uint32_t>(x_offset<type>(t, 0) * 2);
    at_ = exists ? base + static_cast<std::uint32_t>(kZeroBytes + row * staged_row_bytes(width)) + first
                 : base + first;
    step_ = exists ? Format<type>::kChunk * 2U : 0U;
  }
  __device__ __forceinline__ uint4 load(int, int chunk, int i) const {
    return load_shared16(at_ + static_cast<std::uint32_t>(chunk - first_chunk_) * step_ +
                         static_cast<std::uint32_t>(x_offset<type>(0, i) * 2));
  }

 private:
  std::uint32_t at_;
  std::uint32_t step_;
  int first_chunk_;
};

// Rows of bf16 in global memory, padded with zeros to whole chunks.
template <NumberType type, int NT>
class GlobalColumns {
 public:
  // row(n): the lane's row of column group n, null: zeros.
  template <class Row>
  __device__ __forceinline__ explicit GlobalColumns(const Row& row) {
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const __nv_bfloat16* from = row(n);
      rows_[n] = from != nullptr ? from + x_offset<type>(static_cast<int>(threadIdx.x % 4), 0) : nullptr;
    }
  }
  __device__ __forceinline__ uint4 load(int n, int chunk, int i) const {
    if (rows_[n] == nullptr) return {0, 0, 0, 0};
    return *reinterpret_cast<const uint4*>(rows_[n] + chunk * Format<type>::kChunk + x_offset<type>(0, i));
  }

 private:
  const __nv_bfloat16* rows_[NT];
};

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
    for (int i = 0; i < 2; ++i)
      *reinterpret_cast<float2*>(block + (i * 8 + lane / 4) * (8 * NT) + 8 * n + lane % 4 * 2) =
          make_float2(sums[n][2 * i], sums[n][2 * i + 1]);
}

// Rows of f32 as bf16 in scratch memory, `width` columns each, zeros beyond `in`: for GlobalColumns.
void to_bf16_rows(Cuda& cuda, Rows from, int rows, int in, int width, __nv_bfloat16* to);
// The same of their RMSNorm.
void to_normed_bf16_rows(Cuda& cuda, Rows from, const float* norm, float eps, int rows, int in, int width,
                         __nv_bfloat16* to);
// The same of silu(gate) * up.
void to_gated_bf16_rows(Cuda& cuda, Rows gate, Rows up, int rows, int in, int width, __nv_bfloat16* to);

}  // namespace moetune::cuda
