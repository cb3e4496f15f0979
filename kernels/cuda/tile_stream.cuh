// A warp's product of one tile of weights (16 rows) with up to 8 NT columns of activations. The tile streams
// through a ring in shared memory that belongs to the warp alone, so that its loads are always under way
// while it computes.
//
//   TileStream<type, NT, D> stream;
//   stream.start(ring, tile, first_chunk, end_chunk);   // may run before wait_for_previous(): weights are
//   never written stream.finish(sums, columns);
//
// Measured on an H200 over whole MoE layers, bf16, batch 1: 83 to 90 % of the read rate (Mixtral, DeepSeek-V3
// shapes).
#pragma once

#include "kernels/cuda/fragment.cuh"

namespace moetune::cuda {

__device__ __forceinline__ void copy_async16(std::uint32_t to_shared, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to_shared), "l"(from));
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ uint4 load_shared16(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}
template <class Bits>
__device__ __forceinline__ unsigned load_shared_bits(std::uint32_t at) {
  if constexpr (sizeof(Bits) == 2) {
    unsigned short v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at));
    return v;
  } else if constexpr (sizeof(Bits) == 1) {
    unsigned short v;
    asm volatile("ld.shared.u8 %0, [%1];" : "=h"(v) : "r"(at));
    return v;
  } else {
    unsigned v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
  }
}

// NT: groups of 8 columns; D: stages of the ring, each one chunk. D >= 4.
template <NumberType type, int NT, int D>
class TileStream {
 public:
  using F = Format<type>;
  static constexpr int kStageBytes = 1024 + F::kScaleBytes;
  static constexpr int kRingBytes = D * kStageBytes;  // of shared memory, per warp

  // ring: this warp's part of shared memory (16-byte aligned); tile: its first byte.
  __device__ __forceinline__ void start(std::uint32_t ring, const void* tile, int first_chunk,
                                        int end_chunk) {
    lane_ = static_cast<int>(threadIdx.x % 32);
    ring_ = ring;
    tile_ = static_cast<const unsigned char*>(tile);
    first_ = next_ = first_chunk;
    end_ = end_chunk;
#pragma unroll
    for (int stage = 0; stage < D - 1; ++stage) fetch(stage);
  }

  // sums[n][i] += products: i = 0, 1: row lane / 4, columns 8 n + 2 (lane % 4) and + 1; i = 2, 3: row lane /
  // 4 + 8. columns: StagedColumns or GlobalColumns (columns.cuh).
  template <class Columns>
  __device__ __forceinline__ void finish(float (&sums)[NT][4], const Columns& columns) {
    // Two chunks a turn, each with its own accumulators: a chain of dependent products would wait for every
    // one. A chunk of 4-bit values has chains enough, and needs the registers.
    constexpr int kTurn = F::kChunk == 128 && NT == 1 ? 1 : 2;
    float part[kTurn][NT][4] = {};
    int stage = 0;
    for (int chunk = first_; chunk < end_; chunk += kTurn) {
      uint4 upper[kTurn];
      uint4 lower[kTurn];
      float scale[kTurn][kScales][2];
      wait_for_copies<D - 1 - kTurn>();
      if constexpr (F::kScaleBytes > 0) __syncwarp();  // scales were copied by other lanes
#pragma unroll
      for (int h = 0; h < kTurn; ++h) {
        const std::uint32_t at = ring_ + stage * kStageBytes;
        upper[h] = load_shared16(at + lane_ * 16);
        lower[h] = load_shared16(at + lane_ * 16 + 512);
#pragma unroll
        for (int s = 0; s < F::kScaleGroups; ++s) load_scales(scale[h][s], at + 1024, s);
        stage = stage + 1 == D ? 0 : stage + 1;
      }
      if constexpr (F::kScaleBytes > 0) __syncwarp();  // read by all before the stage is filled again
#pragma unroll
      for (int h = 0; h < kTurn; ++h) {
        const int free_stage = stage + D - 1 - kTurn + h;
        fetch(free_stage >= D ? free_stage - D : free_stage);
      }
#pragma unroll
      for (int h = 0; h < kTurn; ++h) {
        if (h > 0 && chunk + h >= end_) break;
        multiply(part[h], upper[h], lower[h], scale[h], columns, chunk + h);
      }
    }
    wait_for_copies<0>();
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] += part[0][n][i] + (kTurn > 1 ? part[kTurn - 1][n][i] : 0.0F);
  }

 private:
  // Values stored with an offset: with one group of columns a product with ones, which knows their sums,
  // costs less than a subtraction for every pair of values; with several it would not.
  static constexpr bool kTakesOffsetOff = F::kOffset != 0 && NT == 1;
  static constexpr int kScales = F::kScaleGroups > 0 ? F::kScaleGroups : 1;

  __device__ __forceinline__ void fetch(int stage) {
    if (next_ < end_) {
      const unsigned char* from = tile_ + static_cast<std::size_t>(next_) * kStageBytes;
      const std::uint32_t to = ring_ + stage * kStageBytes;
      copy_async16(to + lane_ * 16, from + lane_ * 16);
      copy_async16(to + lane_ * 16 + 512, from + lane_ * 16 + 512);
      if constexpr (F::kScaleBytes > 0)
        if (lane_ < F::kScaleBytes / 16) copy_async16(to + lane_ * 16 + 1024, from + lane_ * 16 + 1024);
    }
    commit_copies();
    ++next_;
  }

  // Of the rows lane / 4 and lane / 4 + 8.
  __device__ __forceinline__ void load_scales(float (&scale)[2], std::uint32_t at, int group) const {
    const int row = lane_ / 4;
    if constexpr (type == NumberType::int4 || type == NumberType::int4_g32) {
      scale[0] = half_at(at + (group * 16 + row) * 2);
      scale[1] = half_at(at + (group * 16 + row + 8) * 2);
    } else if constexpr (type == NumberType::mxfp4) {  // e8m0 is a float's exponent; 0 is 2^-127
      scale[0] = exponent(load_shared_bits<char>(at + group * 16 + row));
      scale[1] = exponent(load_shared_bits<char>(at + group * 16 + row + 8));
    } else if constexpr (type == NumberType::fp8) {
      scale[0] = scale[1] = __uint_as_float(load_shared_bits<float>(at));
    }
  }
  static __device__ __forceinline__ float half_at(std::uint32_t at) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(load_shared_bits<short>(at))));
  }
  static __device__ __forceinline__ float exponent(unsigned e8m0) {
    return __uint_as_float(e8m0 == 0 ? 0x00400000U : e8m0 << 23);
  }

  template <class Columns>
  __device__ __forceinline__ void multiply(float (&part)[NT][4], const uint4& upper, const uint4& lower,
                                           const float (&scale)[kScales][2], const Columns& columns,
                                           int chunk) const {
    constexpr int kPerScale = F::kScaleGroups > 0 ? F::kMmas / F::kScaleGroups : F::kMmas;
    static_assert(F::kScaleGroups == 0 || kPerScale >= 2);  // both chains have a product
    constexpr std::uint32_t kOnes = 0x3F803F80U;
    float chain[2][NT][4];
    float column_sum[4];  // of the columns, the same for every row
    uint4 column[NT];
#pragma unroll
    for (int m = 0; m < F::kMmas; ++m) {
      if (m % 2 == 0)
#pragma unroll
        for (int n = 0; n < NT; ++n) column[n] = columns.load(n, chunk, m / 2);
      std::uint32_t a0, a1, a2, a3;
      if constexpr (F::kOffset == 0 || kTakesOffsetOff) {
        F::pairs(upper, m, a0, a2);
        F::pairs(lower, m, a1, a3);
      } else {
        F::exact_pairs(upper, m, a0, a2);
        F::exact_pairs(lower, m, a1, a3);
      }
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const std::uint32_t b0 = word(column[n], 2 * (m % 2));
        const std::uint32_t b1 = word(column[n], 2 * (m % 2) + 1);
        if constexpr (F::kScaleGroups == 0)
          mma(part[n], a0, a1, a2, a3, b0, b1);
        else if (m % kPerScale < 2)
          mma_first(chain[m % 2][n], a0, a1, a2, a3, b0, b1);
        else
          mma(chain[m % 2][n], a0, a1, a2, a3, b0, b1);
        if constexpr (kTakesOffsetOff) {
          if (m % kPerScale == 0)
            mma_first(column_sum, kOnes, kOnes, kOnes, kOnes, b0, b1);
          else
            mma(column_sum, kOnes, kOnes, kOnes, kOnes, b0, b1);
        }
      }
      if constexpr (F::kScaleGroups > 0) {
        if (m % kPerScale != kPerScale - 1) continue;
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            float product = chain[0][n][i] + chain[1][n][i];
            if constexpr (kTakesOffsetOff) product -= static_cast<float>(F::kOffset) * column_sum[i];
            part[n][i] += scale[m / kPerScale][i / 2] * product;
          }
      }
    }
  }

  int lane_ = 0;
  std::uint32_t ring_ = 0;
  const unsigned char* tile_ = nullptr;
  int first_ = 0;
  int next_ = 0;
  int end_ = 0;
};

}  // namespace moetune::cuda
