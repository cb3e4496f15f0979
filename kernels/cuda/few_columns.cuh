// Activations of up to four tokens as operand B, staged once by a whole block: every token fills two of the
// eight columns of a product, so that it keeps sixteen bits of mantissa.
//
//   bf16, f16, fp8 weights     column 2 token: the row as bf16, column 2 token + 1: what the rounding lost
//   int8 and 4-bit weights     two signed bytes of a 16-bit integer, high then low, with one scale for every
//   256 columns:
//                              products of integers, exact, at a third of the instructions that bf16 needs
//
// Several rows may lie behind each other in one column (the choices of one token). Start at FewColumns.
#pragma once

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/fragment.cuh"

namespace moetune::cuda {

inline constexpr int kFewTokens = 4;
inline constexpr int kScaledTogether = 256;  // columns: what a warp stages at once

__host__ __device__ constexpr bool has_integers(NumberType type) {
  return type == NumberType::int8 || type == NumberType::int4 || type == NumberType::int4_g32 ||
         type == NumberType::mxfp4;
}

// Where things lie, from sizes alone.
struct FewShape {
  int tokens;         // 1 .. kFewTokens: pairs of columns
  int rows;           // behind each other in a column
  int width;          // of a row, in columns: a multiple of kScaledTogether
  int element_bytes;  // 1: integers, 2: bf16

  __host__ __device__ int column_bytes() const {
    return rows * width * element_bytes + 64;
  }  // + 64: other banks
  __host__ __device__ int scales_at() const { return kZeroBytes + 2 * tokens * column_bytes(); }
  __host__ __device__ int bytes() const {
    return scales_at() + (element_bytes == 1 ? rows * width / kScaledTogether * kFewTokens * 4 : 0);
  }
};

// Eight neighbouring elements as they are multiplied: the order of what one lane takes out of a word of
// weights.
template <NumberType type>
__device__ __forceinline__ constexpr int octet_order(int i) {
  constexpr int kInt4[] = {0, 4, 1, 5, 2, 6, 3, 7};
  constexpr int kMxfp4[] = {0, 2, 4, 6, 1, 3, 5, 7};
  return type == NumberType::mxfp4 ? kMxfp4[i] : type == NumberType::int8 ? i : kInt4[i];
}

template <NumberType type>
class FewColumns {
 public:
  static constexpr bool kIntegers = has_integers(type);
  static constexpr int kChunk = Format<type>::kChunk;
  static constexpr int kLoads = kIntegers ? kChunk / 64 : kChunk / 32;  // of 16 bytes a lane, for a chunk

  // Staged by `warps` warps of the block, of which this is `warp`.
  __device__ __forceinline__ FewColumns(unsigned char* shared, const FewShape& shape, int warp, int warps)
      : shape_(shape), shared_(shared), warp_(warp), warps_(warps) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int column = lane / 4;
    const int t = lane % 4;
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    const bool exists = column < 2 * shape.tokens;
    const int first = kIntegers ? 16 * t : x_offset<type>(t, 0) * 2;
    at_ =
        base + static_cast<std::uint32_t>(first + (exists ? kZeroBytes + column * shape.column_bytes() : 0));
    step_ = exists ? kChunk * (kIntegers ? 1U : 2U) : 0U;
    scale_at_ = base + static_cast<std::uint32_t>(shape.scales_at() + t * 4);
  }

  // Staging, by all threads of those warps; a barrier must follow. A place is a row behind others in the
  // column of the only token, or the row of a token: row(place) is its first element, on 16 bytes,
  // weight(place) what it is multiplied by (asked for by whole warps). in: a multiple of four; what lies
  // beyond are zeros. Pieces are asked for together before the first is stored: each waits for the L2 cache.
  template <int kTogether>
  struct Asked {
    float4 v[kTogether][2];
  };
  template <int kTogether, class Row>
  __device__ __forceinline__ void ask(Asked<kTogether>& to, int round, int in, const Row& row) const {
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const Piece at = piece(round + i * warps_);
      const int column = at.index * kScaledTogether + static_cast<int>(threadIdx.x % 32) * 8;
      const float* from = row(at.place) + column;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        to.v[i][h] = {0.0F, 0.0F, 0.0F, 0.0F};
        if (at.exists && column + 4 * h < in) to.v[i][h] = load_now(from + 4 * h);
      }
    }
  }
  template <int kTogether, class Weight>
  __device__ __forceinline__ void put(const Asked<kTogether>& from, int round, const Weight& weight) {
#pragma unroll
    for (int i = 0; i < kTogether; ++i)
      if (const Piece at = piece(round + i * warps_); at.exists)
        put(from.v[i], at.place, at.index, weight(at.place));
  }
  // What follows `round`, and the zeros that lanes without a column read.
  template <int kTogether, class Row, class Weight>
  __device__ __forceinline__ void stage(int round, int in, const Row& row, const Weight& weight) {
    if (warp_ == warps_ - 1) reinterpret_cast<uint2*>(shared_)[threadIdx.x % 32] = {0, 0};
    static_assert(kZeroBytes == 256);
    for (; piece(round).exists; round += kTogether * warps_) {
      Asked<kTogether> asked;
      ask(asked, round, in, row);
      put(asked, round, weight);
    }
  }

  // B of a chunk; unit: chunks from the start of the column, units_of_row() to a row.
  struct Fragment {
    uint4 part[kLoads];
    float scale;
  };
  __device__ __forceinline__ int units_of_row() const { return shape_.width / kChunk; }
  __device__ __forceinline__ void load(Fragment& to, int unit) const {
    const auto units = static_cast<std::uint32_t>(unit);
    const std::uint32_t at = at_ + units * step_;
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      to.part[i] =
          load_shared16(at + static_cast<std::uint32_t>(kIntegers ? 64 * i : x_offset<type>(0, i) * 2));
    if constexpr (kIntegers)
      to.scale = __uint_as_float(
          load_shared_bits<float>(scale_at_ + units / (kScaledTogether / kChunk) * (4 * kFewTokens)));
  }

 private:
  struct Piece {
    int place;
    int index;  // within the place
    bool exists;
  };
  __device__ __forceinline__ Piece piece(int index) const {
    const int each = shape_.width / kScaledTogether;
    const auto place =
        static_cast<int>(__fdividef(static_cast<float>(index) + 0.5F, static_cast<float>(each)));
    return {place, index - place * each, place < (shape_.rows > 1 ? shape_.rows : shape_.tokens)};
  }
  static __device__ __forceinline__ float4 load_now(const float* from) {
    float4 v;
    asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
    return v;
  }
  __device__ __forceinline__ void put(const float4 (&v)[2], int place, int piece, float weight) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const int place_bytes = shape_.rows > 1 ? shape_.width * shape_.element_bytes : 2 * shape_.column_bytes();
    unsigned char* to =
        shared_ + kZeroBytes + place * place_bytes + piece * kScaledTogether * shape_.element_bytes;
    const float x[8] = {v[0].x, v[0].y, v[0].z, v[0].w, v[1].x, v[1].y, v[1].z, v[1].w};
    if constexpr (kIntegers) {
      // As bits, so that NaN is larger than anything and reaches the scale.
      unsigned largest = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) largest = max(largest, __float_as_uint(x[i]) & 0x7FFFFFFFU);
      largest = __reduce_max_sync(0xFFFFFFFFU, largest);
      constexpr float kMost =
          32512.0F;  // its high byte is 127, the low one 0: rounding cannot carry beyond 127
      constexpr unsigned kLeast = 0x0DA24260U;  // 1e-30: smaller numbers are zeros, and no quotient overflows
      const float bound = __uint_as_float(max(largest, kLeast));
      const float inverse = kMost * reciprocal(bound);
      // 1.5 * 2^23 + 128 + q: the low 16 bits are those of the integer q + 128; its bytes are the high one of
      // q and, but for the top bit, the low one, which is signed.
      unsigned bits[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) bits[i] = __float_as_uint(fmaf(x[i], inverse, 12583040.0F));
      uint2 high, low;
      cut<0>(bits, high.x, low.x);
      cut<4>(bits, high.y, low.y);
      int at = lane * 8;
      if constexpr (kChunk == 128) {  // of a chunk: 16 bytes a lane from the words 0 and 1 of its weights,
                                      // then from 2 and 3
        const int octet = lane % 16;
        at += octet / 8 * 64 + octet % 4 * 16 + octet / 4 % 2 * 8 - octet * 8;
      }
      *reinterpret_cast<uint2*>(to + at) = high;
      *reinterpret_cast<uint2*>(to + shape_.column_bytes() + at) = low;
      if (lane == 0) {
        const int scale = shape_.rows > 1 ? (place * (shape_.width / kScaledTogether) + piece) * kFewTokens
                                          : piece * kFewTokens + place;
        reinterpret_cast<float*>(shared_ + shape_.scales_at())[scale] = bound * (weight * (1.0F / kMost));
      }
    } else {
      uint4 rounded, lost;
      auto* high = reinterpret_cast<unsigned*>(&rounded);
      auto* low = reinterpret_cast<unsigned*>(&lost);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float a = x[2 * i] * weight;
        const float b = x[2 * i + 1] * weight;
        high[i] = pack2(a, b);
        low[i] = pack2(a - __uint_as_float(high[i] << 16), b - __uint_as_float(high[i] & 0xFFFF0000U));
      }
      *reinterpret_cast<uint4*>(to + lane * 16) = rounded;
      *reinterpret_cast<uint4*>(to + shape_.column_bytes() + lane * 16) = lost;
    }
  }
  static __device__ __forceinline__ float reciprocal(float value) {
    float d;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(value));
    return d;
  }
  // The high and the low bytes of four elements from `first` on, in the order in which they are multiplied.
  template <int first>
  static __device__ __forceinline__ void cut(const unsigned (&bits)[8], unsigned& high, unsigned& low) {
    const unsigned a =
        __byte_perm(bits[octet_order<type>(first)], bits[octet_order<type>(first + 1)], 0x5140U);
    const unsigned b =
        __byte_perm(bits[octet_order<type>(first + 2)], bits[octet_order<type>(first + 3)], 0x5140U);
    high = __byte_perm(a, b, 0x7632U);
    low = __byte_perm(a, b, 0x5410U) ^ 0x80808080U;
  }

  FewShape shape_;
  unsigned char* shared_;
  int warp_;
  int warps_;
  std::uint32_t at_;
  std::uint32_t step_;
  std::uint32_t scale_at_;
};

}  // namespace moetune::cuda
