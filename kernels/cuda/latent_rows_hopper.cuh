// What attend_latent_hopper.cu has in shared memory, the products over it, and what puts it there: rows of
// the cache, queries as bf16, and the row of a token that is not in the cache yet. For that file only.
#pragma once

#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda::latent_hopper {

inline constexpr int kHeads = 64;
inline constexpr int kPositions = 64;
inline constexpr int kThreads = 256;
inline constexpr int kFactors = 256;  // of the join: there is no room for more
inline constexpr int kRank = 512;
inline constexpr int kWidth = kRank + 64;
inline constexpr int kBlockBytes = kPositions * 128;
inline constexpr int kRowsBytes = kWidth / 64 * kBlockBytes;
inline constexpr int kQueriesAt = 0;
inline constexpr int kRowsAt = kQueriesAt + kRowsBytes;
inline constexpr int kWeightsAt = kRowsAt + 2 * kRowsBytes;   // (4 steps, 128 threads) x 16 bytes
inline constexpr int kFactorsAt = kWeightsAt + 4 * 128 * 16;  // (heads) f32
inline constexpr int kScalesAt = kFactorsAt + kHeads * 4;     // (positions) f32
inline constexpr int kSharedBytes = kScalesAt + kPositions * 4;
inline constexpr int kRawBytes = kPositions * kWidth;  // of bytes: two of them behind one widened tile
static_assert(2 * kRawBytes <= kRowsBytes);
static_assert(kHeads * (kRank + kPartHead) * 4 <= 2 * kRowsBytes);  // the parts take the rows' place

template <class Number>
inline constexpr bool kIsBf16 = std::is_same_v<Number, __nv_bfloat16>;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// PTX ISA, "Matrix descriptor": 128-byte swizzle; row groups of eight lie behind each other.
__device__ __forceinline__ std::uint64_t along_columns(std::uint32_t at) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 16) |
         ((at & 0x3FFFF) >> 4);
}
// Columns 64 apart are a block apart.
__device__ __forceinline__ std::uint64_t along_rows(std::uint32_t at) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) |
         (std::uint64_t{kBlockBytes >> 4} << 16) | ((at & 0x3FFFF) >> 4);
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_finish() {
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}
#define D8(at)                                                                             \
  "+f"(d[at]), "+f"(d[(at) + 1]), "+f"(d[(at) + 2]), "+f"(d[(at) + 3]), "+f"(d[(at) + 4]), \
      "+f"(d[(at) + 5]), "+f"(d[(at) + 6]), "+f"(d[(at) + 7])
#define D32(at) D8(at), D8((at) + 8), D8((at) + 16), D8((at) + 24)
#define N32                                                                                                \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27," \
  "%28,%29,%30,%31"
#define N128                                                                                              \
  N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55," \
      "%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"  \
      "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,"   \
      "%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,"   \
      "%122,%123,%124,%125,%126,%127"
// d = a b (+ d where adds): 64 x 16 by 16 x 64, both from shared memory along the columns.
#define SCORE_STEP(type)                                                                                  \
  asm volatile(                                                                                           \
      "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"                                                           \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" N32 "}, %32, %33, p, 1, 1, 0, 0;}" \
      : D32(0)                                                                                            \
      : "l"(a), "l"(b), "r"(adds))
template <class Number>
__device__ __forceinline__ void score_step(float (&d)[32], std::uint64_t a, std::uint64_t b, int adds) {
  if constexpr (kIsHalf<Number>)
    SCORE_STEP("f16");
  else
    SCORE_STEP("bf16");
}
// d += a b: 64 x 16 by 16 x 256, a in registers as mma.m16n8k16 has it, b along the rows.
#define VALUE_STEP(type)                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" N128 \
               "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;"                          \
               : D32(0), D32(32), D32(64), D32(96)                                    \
               : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b))
template <class Number>
__device__ __forceinline__ void value_step(float (&d)[128], const uint4& a, std::uint64_t b) {
  if constexpr (kIsHalf<Number>)
    VALUE_STEP("f16");
  else
    VALUE_STEP("bf16");
}
#undef VALUE_STEP
#undef SCORE_STEP
#undef N128
#undef N32
#undef D32
#undef D8

// Byte of 16-byte piece `piece` (0 .. 71) of row `row`.
__device__ __forceinline__ int place_of(int row, int piece) {
  return piece / 8 * kBlockBytes + row * 128 + ((piece % 8) ^ (row % 8)) * 16;
}

__device__ __forceinline__ void copy_or_zero(std::uint32_t to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(exists ? 16 : 0));
}
// Rows start .. start + 63, by `threads` threads of which this is one: zeros from `stored` on, nothing in
// place of `skipped`.
template <class Number>
__device__ __forceinline__ void fetch_rows(std::uint32_t to, const Number* rows, std::int64_t stride,
                                           int start, int stored, int skipped, int thread, int threads) {
  if constexpr (kIsBf16<Number>) {
    const int piece = thread % 8;
    for (int row = thread / 8; row < kPositions; row += threads / 8) {
      if (start + row == skipped) continue;
      const bool exists = start + row < stored;
      const Number* from = rows + (exists ? start + row : 0) * stride + piece * 8;
      const std::uint32_t at = to + static_cast<std::uint32_t>(row * 128 + (piece ^ (row % 8)) * 16);
#pragma unroll
      for (int block = 0; block < kWidth / 64; ++block)
        copy_or_zero(at + block * kBlockBytes, from + block * 64, exists);
    }
  } else {
    constexpr int kPieces = kWidth / 16;  // of a row
    for (int i = thread; i < kPositions * kPieces; i += threads) {
      const int row = i / kPieces;
      const int piece = i % kPieces;
      const bool exists = start + row < stored;
      copy_or_zero(to + static_cast<std::uint32_t>(i * 16),
                   rows + (exists ? start + row : 0) * stride + piece * 16, exists);
    }
  }
  commit_copies();
}

// A tile of bytes as it came from the cache, widened into the tile that is multiplied; row `skipped` is left
// out. By all threads: four share a row, so that what one reads and writes is always the same distance apart
// and no two of a quarter of a warp meet in a bank.
template <class Number>
__device__ __forceinline__ void widen_rows(unsigned char* tile, const Number* raw, int skipped) {
  static_assert(kThreads == 4 * kPositions && kWidth % 64 == 0);
  constexpr int kTogether = 3;
  constexpr int kTurns = kWidth / 64;
  static_assert(kTurns % kTogether == 0);
  const auto row = static_cast<int>(threadIdx.x / 4);
  const auto part = static_cast<int>(threadIdx.x % 4);
  if (row == skipped) return;
  const Number* const from = raw + row * kWidth + part * 16;
  unsigned char* const to = tile + row * 128;
  const int first = ((2 * part) ^ (row % 8)) * 16;
  const int second = ((2 * part + 1) ^ (row % 8)) * 16;
#pragma unroll
  for (int turn = 0; turn < kTurns; turn += kTogether) {
    uint4 bytes[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) bytes[i] = *reinterpret_cast<const uint4*>(from + (turn + i) * 64);
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      *reinterpret_cast<uint4*>(to + (turn + i) * kBlockBytes + first) =
          Eight<Number>::from_bits(bytes[i].x, bytes[i].y).operands();
      *reinterpret_cast<uint4*>(to + (turn + i) * kBlockBytes + second) =
          Eight<Number>::from_bits(bytes[i].z, bytes[i].w).operands();
    }
  }
}

// A rotated pair of a head of 64 elements, one a lane.
struct Pair {
  float first;
  float second;
};
struct Turn {
  float cosine = 1.0F;
  float sine = 0.0F;
  bool is_interleaved = false;
  __device__ __forceinline__ int first() const {
    return static_cast<int>(threadIdx.x % 32) * (is_interleaved ? 2 : 1);
  }
  __device__ __forceinline__ int second() const { return first() + (is_interleaved ? 1 : 32); }
  __device__ __forceinline__ Pair load(const float* from) const { return {from[first()], from[second()]}; }
  __device__ __forceinline__ Pair turned(const Pair& pair) const {
    return {pair.first * cosine - pair.second * sine, pair.second * cosine + pair.first * sine};
  }
};
template <class Number>
__device__ __forceinline__ void put(unsigned char* tile, int row, int column, float value) {
  *reinterpret_cast<Operand<Number>*>(tile + place_of(row, column / 8) + column % 8 * 2) =
      operand_of<Number>(value);
}

// Zeros in place of the heads that do not exist.
__device__ __forceinline__ void clear_queries(unsigned char* queries, int head_count) {
  constexpr int kPieces = kWidth / 8;
  for (int i = head_count * kPieces + static_cast<int>(threadIdx.x); i < kHeads * kPieces; i += kThreads)
    *reinterpret_cast<uint4*>(queries + place_of(i / kPieces, i % kPieces)) = uint4{};
}

// Scaled queries as operands, by the first `warps` warps.
template <class Number>
__device__ __forceinline__ void stage_queries(unsigned char* queries, const AttendShape& shape,
                                              const AttendInputs& in, int token, int first_head,
                                              int head_count, const Turn& turn, int warps) {
  // Several loads at once: one after the other each would wait for the L2 cache.
  constexpr int kTogether = 5;
  constexpr int kPieces = kRank / 8;
  const float* const latent = in.q + token * in.q_strides.token + first_head * in.q_strides.head;
  const float* const rest = in.q_rest + token * in.q_rest_strides.token + first_head * in.q_rest_strides.head;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const float scale = shape.scale;
  for (int first = 0; first < head_count; first += 3 * warps) {
    Pair pairs[3];
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (const int head = first + warp + i * warps; head < head_count)
        pairs[i] = turn.load(rest + head * in.q_rest_strides.head);
    // As many pieces of the latent part as belong to these heads, roughly: both are on their way together.
    const int end = min(head_count, first + 3 * warps) * kPieces;
    for (int from = first * kPieces + static_cast<int>(threadIdx.x); from < end;
         from += kTogether * 32 * warps) {
      float4 low[kTogether];
      float4 high[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int index = from + i * 32 * warps;
        if (index >= end) continue;
        const float* at = latent + index / kPieces * in.q_strides.head + index % kPieces * 8;
        low[i] = *reinterpret_cast<const float4*>(at);
        high[i] = *reinterpret_cast<const float4*>(at + 4);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int index = from + i * 32 * warps;
        if (index >= end) continue;
        *reinterpret_cast<uint4*>(queries + place_of(index / kPieces, index % kPieces)) =
            make_uint4(bounded_operands_of<Number>(low[i].x * scale, low[i].y * scale),
                       bounded_operands_of<Number>(low[i].z * scale, low[i].w * scale),
                       bounded_operands_of<Number>(high[i].x * scale, high[i].y * scale),
                       bounded_operands_of<Number>(high[i].z * scale, high[i].w * scale));
      }
    }
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (const int head = first + warp + i * warps; head < head_count) {
        const Pair pair = turn.turned(pairs[i]);
        put<Number>(queries, head, kRank + turn.first(), pair.first * scale);
        put<Number>(queries, head, kRank + turn.second(), pair.second * scale);
      }
  }
}

// The token's own row, a warp wide.
struct FreshRow {
  static constexpr int kPerLane = kRank / 32;
  float latent[kPerLane];  // column lane + 32 i; the norm's weights before make()
  Pair pair;
  float scale = 0.0F;

  // What no kernel writes.
  __device__ __forceinline__ void prepare(const AttendPlacing& placing) {
#pragma unroll
    for (int c = 0; c < kPerLane; ++c)
      latent[c] = placing.key_norm != nullptr ? placing.key_norm[threadIdx.x % 32 + 32 * c] : 1.0F;
  }

  template <class Number>
  __device__ __forceinline__ void make(const AttendPlacing& placing, int token, const Turn& turn) {
    const float* from = placing.new_keys + token * placing.new_key_strides.token;
    float row[kPerLane];
    float squares = 0.0F;
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) row[c] = from[threadIdx.x % 32 + 32 * c];
    pair = turn.turned(turn.load(from + kRank));
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) squares += row[c] * row[c];
    const float inverse = placing.key_norm != nullptr
                              ? rsqrtf(warp_sum(squares) / static_cast<float>(kRank) + placing.eps)
                              : 1.0F;
    float largest = fmaxf(fabsf(pair.first), fabsf(pair.second));
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) {
      latent[c] *= inverse * row[c];
      largest = fmaxf(largest, fabsf(latent[c]));
    }
    if constexpr (kHasCacheScales<Number>) scale = cache_scale(warp_max(largest));
  }
  template <class Number>
  __device__ __forceinline__ void store(Number* to, const Turn& turn) const {
#pragma unroll
    for (int c = 0; c < kPerLane; ++c) to[threadIdx.x % 32 + 32 * c] = cached<Number>(latent[c], scale);
    to[kRank + turn.first()] = cached<Number>(pair.first, scale);
    to[kRank + turn.second()] = cached<Number>(pair.second, scale);
  }
  // As it would be read back from the cache.
  template <class Number>
  __device__ __forceinline__ void put_into(unsigned char* tile, int row, const Turn& turn) const {
    const auto kept = [&](float value) { return widen(cached<Number>(value, scale)); };
#pragma unroll
    for (int c = 0; c < kPerLane; ++c)
      put<Number>(tile, row, static_cast<int>(threadIdx.x % 32) + 32 * c, kept(latent[c]));
    put<Number>(tile, row, kRank + turn.first(), kept(pair.first));
    put<Number>(tile, row, kRank + turn.second(), kept(pair.second));
  }
};
#endif

}  // namespace moetune::cuda::latent_hopper
