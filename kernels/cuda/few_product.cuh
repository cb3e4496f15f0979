// A chunk of weights in registers and its product with the columns of up to four tokens. Chunks come straight
// from memory into registers, several at a time: a ring in shared memory would cost as many instructions as
// the products of 4-bit weights do. Start at HeldChunk.
#pragma once

#include "kernels/cuda/few_columns.cuh"

namespace moetune::cuda {

__device__ __forceinline__ uint4 load_once16(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ __forceinline__ unsigned load_once4(const void* from) {
  unsigned v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}
__device__ __forceinline__ unsigned load_once2(const void* from) {
  unsigned short v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(from));
  return v;
}

__device__ __forceinline__ void bring_to_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// c += a b: 16 x 32 by 32 x 8, signed bytes in, 32-bit integers out (PTX ISA, "Matrix fragments for
// mma.m16n8k32").
__device__ __forceinline__ void mma_bytes(int (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                          std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Sums of a lane: rows lane / 4 and lane / 4 + 8, token lane % 4.
template <NumberType type>
struct FewSums {
  float part[has_integers(type) ? 2 : 4] = {};
  __device__ __forceinline__ float of(int half) const {
    if constexpr (has_integers(type))
      return part[half];
    else
      return part[2 * half] + part[2 * half + 1];
  }
};

template <NumberType type>
class HeldChunk {
 public:
  using F = Format<type>;
  using Columns = FewColumns<type>;
  static constexpr int kBytes = 1024 + F::kScaleBytes;

  // at: the lane's 16 bytes of the chunk, chunk + 16 lane; row_scales: int8: of the chunk's tile.
  __device__ __forceinline__ void fetch(const unsigned char* at, const unsigned char* row_scales) {
    upper_ = load_once16(at);
    lower_ = load_once16(at + 512);
    const auto lane = static_cast<int>(threadIdx.x % 32);
    if constexpr (type == NumberType::int8) {
      scale_[0] = load_once4(row_scales + lane / 4 * 4);
      scale_[1] = load_once4(row_scales + lane / 4 * 4 + 32);
      return;
    }
    if constexpr (F::kScaleBytes > 0) {
      constexpr int kEach = type == NumberType::int4_g32 ? 4
                            : type == NumberType::fp8    ? 0
                                                         : 2;  // bytes of a lane
      const unsigned char* scales =
          at + (1024 - lane * 16 + (type == NumberType::int4 ? lane / 4 : lane) * kEach);
      if constexpr (type == NumberType::int4) {
        scale_[0] = load_once2(scales);
        scale_[1] = load_once2(scales + 16);
      } else if constexpr (kEach == 2) {
        scale_[0] = load_once2(scales);  // one lane's rows lie with other lanes
      } else {
        scale_[0] = load_once4(scales);
      }
    }
  }

  __device__ __forceinline__ void multiply(FewSums<type>& sums, const typename Columns::Fragment& x) const {
    if constexpr (type == NumberType::int8) {
      int c[4] = {};
#pragma unroll
      for (int m = 0; m < 2; ++m)
        mma_bytes(c, word(upper_, 2 * m), word(lower_, 2 * m), word(upper_, 2 * m + 1),
                  word(lower_, 2 * m + 1), word(x.part[0], 2 * m), word(x.part[0], 2 * m + 1));
#pragma unroll
      for (int half = 0; half < 2; ++half)
        sums.part[half] += joined(c, half) * (__uint_as_float(scale_[half]) * x.scale);
    } else if constexpr (has_integers(type)) {
      multiply_nibbles(sums, x);
    } else {
      float c[4] = {};
#pragma unroll
      for (int m = 0; m < F::kMmas; ++m) {
        std::uint32_t a0, a1, a2, a3;
        F::pairs(upper_, m, a0, a2);
        F::pairs(lower_, m, a1, a3);
        const std::uint32_t b0 = word(x.part[m / 2], 2 * (m % 2));
        const std::uint32_t b1 = word(x.part[m / 2], 2 * (m % 2) + 1);
        if constexpr (F::kScaleGroups == 0)
          mma(sums.part, a0, a1, a2, a3, b0, b1);
        else
          mma(c, a0, a1, a2, a3, b0, b1);
      }
      if constexpr (F::kScaleGroups > 0)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums.part[i] += __uint_as_float(scale_[0]) * c[i];
    }
  }

  // The same chunk as operand A in bf16, for products of more tokens: of product m (Format::kMmas), and the
  // scale of a group of it for rows lane / 4 + 8 half.
  __device__ __forceinline__ void operands(int m, std::uint32_t (&a)[4]) const {
    if constexpr (F::kOffset != 0) {
      F::exact_pairs(upper_, m, a[0], a[2]);
      F::exact_pairs(lower_, m, a[1], a[3]);
    } else {
      F::pairs(upper_, m, a[0], a[2]);
      F::pairs(lower_, m, a[1], a[3]);
    }
  }
  __device__ __forceinline__ float scale_of(int group, int half) const {
    if constexpr (F::kScaleGroups == 4)
      return group_scale(group, half);
    else if constexpr (type == NumberType::int4)
      return half_of(scale_[half]);
    else
      return __uint_as_float(scale_[0]);
  }

 private:
  static __device__ __forceinline__ float half_of(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  // High and low bytes of the activations meet again.
  static __device__ __forceinline__ float joined(const int (&c)[4], int half) {
    return static_cast<float>(c[2 * half] * 256 + c[2 * half + 1]);
  }

  __device__ __forceinline__ void multiply_nibbles(FewSums<type>& sums,
                                                   const typename Columns::Fragment& x) const {
    int c[4] = {};
    float group_sums[2] = {};
    [[maybe_unused]] const Table negative = negative_table();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t b0 = word(x.part[j / 2], 2 * (j % 2));
      const std::uint32_t b1 = word(x.part[j / 2], 2 * (j % 2) + 1);
      const std::uint32_t upper = word(upper_, j);
      const std::uint32_t lower = word(lower_, j);
      if constexpr (type == NumberType::mxfp4) {
        const std::uint32_t upper_odd = upper >> 16;
        const std::uint32_t lower_odd = lower >> 16;
        mma_bytes(c, looked_up(kPositive, upper), looked_up(kPositive, lower),
                  looked_up(kPositive, upper_odd), looked_up(kPositive, lower_odd), b0, b1);
        mma_bytes(c, looked_up(negative, turned(upper)), looked_up(negative, turned(lower)),
                  looked_up(negative, turned(upper_odd)), looked_up(negative, turned(lower_odd)), b0, b1);
      } else {
        mma_bytes(c, sixteen_times(upper << 4), sixteen_times(lower << 4), sixteen_times(upper),
                  sixteen_times(lower), b0, b1);
      }
      if constexpr (F::kScaleGroups == 4) {
#pragma unroll
        for (int half = 0; half < 2; ++half) group_sums[half] += joined(c, half) * group_scale(j, half);
#pragma unroll
        for (int i = 0; i < 4; ++i) c[i] = 0;
      }
    }
    constexpr float kUnit = type == NumberType::mxfp4 ? 0.5F : 0.0625F;
    const float scale = x.scale * kUnit;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if constexpr (F::kScaleGroups == 4)
        sums.part[half] += group_sums[half] * scale;
      else
        sums.part[half] += joined(c, half) * (half_of(scale_[half]) * scale);
  }
  // int4: 16 times the values of the high nibbles, as signed bytes. A nibble holds value + 8.
  static __device__ __forceinline__ std::uint32_t sixteen_times(std::uint32_t word) {
    std::uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0x6A;"
        : "=r"(d)
        : "r"(word), "r"(0xF0F0F0F0U), "r"(0x80808080U));  // (a & b) ^ c
    return d;
  }
  // e2m1, four low nibbles: twice the value is what one table makes of them and another of them with their
  // signs turned over. PRMT looks up a nibble below 8, and of a nibble above it repeats the top bit of what
  // it finds:
  //   positive   M + 1 for M, 0 for 0, 0 for -M
  //   negative   -1 for M, 0 for 0, -M for -M
  struct Table {
    std::uint32_t low;
    std::uint32_t high;
  };
  static constexpr Table kPositive{0x04030200U, 0x0D090705U};
  static __device__ __forceinline__ Table negative_table() {
    // Not a constant in the compiler's eyes: it would load it again for every look-up.
    std::uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return {0xFDFEFF00U + (lane >> 5), 0xF4F8FAFCU};
  }
  static __device__ __forceinline__ std::uint32_t turned(std::uint32_t word) {
    std::uint32_t d;
    asm("xor.b32 %0, %1, 0x88888888;"
        : "=r"(d)
        : "r"(word));  // the compiler would shift what is turned instead
    return d;
  }
  static __device__ __forceinline__ std::uint32_t looked_up(Table table, std::uint32_t word) {
    std::uint32_t d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(table.low), "r"(table.high), "r"(word));
    return d;
  }
  // Of group j and row lane / 4 + 8 half: two scales lie in each lane's register.
  __device__ __forceinline__ float group_scale(int j, int half) const {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const unsigned both = __shfl_sync(0xFFFFFFFFU, scale_[0], 8 * j + 4 * half + lane / 8);
    const int odd = lane / 4 % 2;
    if constexpr (type == NumberType::mxfp4)  // e8m0 is a float's exponent; 2^-127 becomes 0
      return __uint_as_float(both << (23 - 8 * odd) & 0x7F800000U);
    else
      return half_of(both >> (16 * odd));
  }

  uint4 upper_ = {};
  uint4 lower_ = {};
  unsigned scale_[2] = {};
};

}  // namespace moetune::cuda
