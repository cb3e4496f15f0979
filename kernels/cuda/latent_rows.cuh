// What attend_latent.cu has in shared memory and how it is read and written there: rows of the cache, queries
// and weights as bf16. For that file only.
#pragma once

#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda::latent_rows {

inline constexpr int kWarps = 8;
inline constexpr int kHeads = 16;
inline constexpr int kPositions = 64;  // of a turn
inline constexpr int kRank = 512;
inline constexpr int kRope = 64;
inline constexpr int kWidth = kRank + kRope;
inline constexpr int kSteps = kWidth / 16;         // products along a row
inline constexpr int kRowBytes = kWidth * 2 + 16;  // rows that are read together begin in different banks
inline constexpr int kTileBytes = kPositions * kRowBytes;
inline constexpr int kWeightBytes = kPositions * 2 + 16;

// Where everything lies in shared memory.
inline constexpr int kQueriesAt = 0;
inline constexpr int kWeightsAt = kQueriesAt + kHeads * kRowBytes;
inline constexpr int kTopsAt = kWeightsAt + kHeads * kWeightBytes;  // (warps, heads) f32
inline constexpr int kScalesAt = kTopsAt + kWarps * kHeads * 4;     // (positions) f32
inline constexpr int kTilesAt = kScalesAt + kPositions * 4;         // the bf16 tile; later the parts
inline constexpr int kPartsBytes = kHeads * (kRank + kPartHead) * 4;
static_assert(kTilesAt % 16 == 0 && kPartsBytes <= kTileBytes);

// Four 8 x 8 blocks: lane i gives the address of row i % 8 of block i / 8 (PTX ISA, "ldmatrix").
__device__ __forceinline__ uint4 load_blocks(std::uint32_t at) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
__device__ __forceinline__ uint4 load_blocks_turned(std::uint32_t at) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
__device__ __forceinline__ void copy_async_or_zero(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0));
}

template <class Number>
inline constexpr bool kIsBf16 = std::is_same_v<Number, __nv_bfloat16>;
// Bytes of a tile as it comes from the cache: bf16 in its place, bytes beside, to be widened when they are
// there.
template <class Number>
inline constexpr int kRawRowBytes = kIsBf16<Number> ? kRowBytes : kWidth + 16;
template <class Number>
inline constexpr int kRawBytes = kPositions * kRawRowBytes<Number>;

template <class Number>
inline constexpr int kSharedBytes = kTilesAt + kTileBytes + (kIsBf16<Number> ? 0 : kRawBytes<Number>);
inline constexpr int kFactors = 512;  // of the join

// A rotated pair of a head of kRope elements, one a lane.
struct Pair {
  float first;
  float second;
};
__device__ __forceinline__ Pair load_pair(const float* from, bool is_interleaved) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return is_interleaved ? Pair{from[2 * lane], from[2 * lane + 1]} : Pair{from[lane], from[lane + 32]};
}
__device__ __forceinline__ Pair rotated(const Pair& pair, float cosine, float sine) {
  return {pair.first * cosine - pair.second * sine, pair.second * cosine + pair.first * sine};
}
template <class To>
__device__ __forceinline__ void store_pair(To* to, const Pair& pair, bool is_interleaved, float scale) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  to[is_interleaved ? 2 * lane : lane] = cached<To>(pair.first, scale);
  to[is_interleaved ? 2 * lane + 1 : lane + 32] = cached<To>(pair.second, scale);
}

}  // namespace moetune::cuda::latent_rows
