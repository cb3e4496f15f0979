// Attention of up to 64 heads over compressed rows (MLA, 512 + 64) with wgmma: where there are many heads a
// row is worth 2 x 64 products of its elements, and mma.sync would be the limit (the scheme of FlashMLA).
// With few heads most of a product is spent on nothing, and it is still faster (H200: 16 heads, 64
// positions: 2.1 us against 5.4 us). Two warpgroups, each with half the columns of the result in its
// registers; the first one also makes scores and weights.
//
// Rows lie in shared memory as nine blocks of (64 rows, 64 columns), 128-byte swizzle: for the scores an
// operand along the columns, for the values the same bytes along the rows. A cache of bytes is widened to
// that from two tiles as they come.
#include <algorithm>

#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

constexpr int kHeads = 64;
constexpr int kPositions = 64;
constexpr int kThreads = 256;
constexpr int kFactors = 256;  // of the join: there is no room for more
constexpr int kRank = 512;
constexpr int kWidth = kRank + 64;
constexpr int kBlockBytes = kPositions * 128;
constexpr int kRowsBytes = kWidth / 64 * kBlockBytes;
constexpr int kQueriesAt = 0;
constexpr int kRowsAt = kQueriesAt + kRowsBytes;
constexpr int kWeightsAt = kRowsAt + 2 * kRowsBytes;   // (4 steps, 128 threads) x 16 bytes
constexpr int kFactorsAt = kWeightsAt + 4 * 128 * 16;  // (heads) f32
constexpr int kScalesAt = kFactorsAt + kHeads * 4;     // (positions) f32
constexpr int kSharedBytes = kScalesAt + kPositions * 4;
constexpr int kRawBytes = kPositions * kWidth;  // of bytes: two of them behind one widened tile
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
// d = a b (+ d where adds): 64 x 16 by 16 x 64, both from shared memory along the columns.
__device__ __forceinline__ void score_step(float (&d)[32], std::uint64_t a, std::uint64_t b, int adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, "
      "%32, %33, p, 1, 1, 0, 0;}"
      : D32(0)
      : "l"(a), "l"(b), "r"(adds));
}
// d += a b: 64 x 16 by 16 x 256, a in registers as mma.m16n8k16 has it, b along the rows.
__device__ __forceinline__ void value_step(float (&d)[128], const uint4& a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%"
      "57,%58,%59,%60,%61,"
      "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%"
      "87,%88,%89,%90,%91,"
      "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,"
      "%114,%115,%116,"
      "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;"
      : D32(0), D32(32), D32(64), D32(96)
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}
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
__device__ __forceinline__ void put(unsigned char* tile, int row, int column, float value) {
  *reinterpret_cast<__nv_bfloat16*>(tile + place_of(row, column / 8) + column % 8 * 2) =
      __float2bfloat16_rn(value);
}

// Zeros in place of the heads that do not exist.
__device__ __forceinline__ void clear_queries(unsigned char* queries, int head_count) {
  constexpr int kPieces = kWidth / 8;
  for (int i = head_count * kPieces + static_cast<int>(threadIdx.x); i < kHeads * kPieces; i += kThreads)
    *reinterpret_cast<uint4*>(queries + place_of(i / kPieces, i % kPieces)) = uint4{};
}

// Scaled queries as bf16, by the first `warps` warps.
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
        *reinterpret_cast<uint4*>(queries + place_of(index / kPieces, index % kPieces)) = make_uint4(
            pack2(low[i].x * scale, low[i].y * scale), pack2(low[i].z * scale, low[i].w * scale),
            pack2(high[i].x * scale, high[i].y * scale), pack2(high[i].z * scale, high[i].w * scale));
      }
    }
#pragma unroll
    for (int i = 0; i < 3; ++i)
      if (const int head = first + warp + i * warps; head < head_count) {
        const Pair pair = turn.turned(pairs[i]);
        put(queries, head, kRank + turn.first(), pair.first * scale);
        put(queries, head, kRank + turn.second(), pair.second * scale);
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
      put(tile, row, static_cast<int>(threadIdx.x % 32) + 32 * c, kept(latent[c]));
    put(tile, row, kRank + turn.first(), kept(pair.first));
    put(tile, row, kRank + turn.second(), kept(pair.second));
  }
};
#endif

// Grid: (pieces, blocks of 64 heads, tokens).
template <class Number>
__global__ void __launch_bounds__(kThreads, 1)
    attend_rows_hopper(AttendShape shape, AttendInputs in, Pieces pieces) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr bool kScaled = kHasCacheScales<Number>;
  const bool places = in.placing.is_asked;
  let_next_start();
  if (!places) wait_for_previous();
  // With placing, what is read before wait_for_previous() is older than this step: its first kernel waits for
  // all before it.
  const int token = static_cast<int>(blockIdx.z);
  const int last = in.positions[token];
  const auto [begin, each, active, all] = cut_of(shape, last, pieces.count, kPositions, kPositions);
  if (static_cast<int>(blockIdx.x) >= (active + pieces.cluster - 1) / pieces.cluster * pieces.cluster) {
    if (places) wait_for_previous();
    return;
  }
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const int first_head = static_cast<int>(blockIdx.y) * kHeads;
  const int head_count = min(kHeads, shape.heads - first_head);
  const std::int64_t slot = in.sequences[token];
  Number* const rows = static_cast<Number*>(in.keys) + slot * in.slot_stride;
  float* const scales = in.key_scales + slot * in.scale_slot_stride;
  const bool has_fresh = places && first < end && end == all;
  const int stored = has_fresh ? last : end;  // positions from here on are not read from the cache
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int group = static_cast<int>(threadIdx.x / 128);
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int t = static_cast<int>(threadIdx.x % 4);
  const bool makes_row = has_fresh && threadIdx.x / 32 == kThreads / 32 - 1;
  const auto stage_at = [&](int stage) {
    return kRowsAt + (kIsBf16<Number> ? stage * kRowsBytes : kRowsBytes + stage * kRawBytes);
  };
  const int fresh_row = has_fresh ? last : -1;
  if (first < end) {
    fetch_rows(base + static_cast<std::uint32_t>(stage_at(0)), rows, in.row_stride, first, stored, fresh_row,
               static_cast<int>(threadIdx.x), kThreads);
    clear_queries(shared + kQueriesAt, head_count);
  }

  Turn turn;
  FreshRow fresh;
  if (makes_row) fresh.prepare(in.placing);
  if (places) {
    turn.is_interleaved = in.placing.is_interleaved;
    // Not __sincosf: at position 100,000 its argument reduction is off by more than bf16 can hide.
    sincosf(static_cast<float>(last) * in.placing.frequencies[threadIdx.x % 32], &turn.sine, &turn.cosine);
    turn.sine *= in.placing.rope_scale;
    turn.cosine *= in.placing.rope_scale;
    wait_for_previous();
  }
  if (makes_row) {
    fresh.make<Number>(in.placing, token, turn);
    if (blockIdx.y == 0) {
      fresh.store(rows + last * in.row_stride, turn);
      if (kScaled && threadIdx.x % 32 == 0) scales[last] = fresh.scale;
    }
  }
  const int staging_warps = kThreads / 32 - (has_fresh ? 1 : 0);
  if (first < end && static_cast<int>(threadIdx.x) < 32 * staging_warps)
    stage_queries(shared + kQueriesAt, shape, in, token, first_head, head_count, turn, staging_warps);

  float top[2] = {kNothing, kNothing};  // of heads 16 warp + lane / 4 and + 8; the first group's
  float sum[2] = {};
  float out[128] = {};
  auto* const weights = reinterpret_cast<uint4*>(shared + kWeightsAt) + thread;
  auto* const factors = reinterpret_cast<float*>(shared + kFactorsAt) + thread / 32 * 16 + thread % 32 / 4;
  auto* const tile_scales = reinterpret_cast<float*>(shared + kScalesAt);
  for (int start = first, stage = 0; start < end; start += kPositions, stage ^= 1) {
    const int tile_at = kIsBf16<Number> ? stage_at(stage) : kRowsAt;
    const std::uint32_t tile = base + static_cast<std::uint32_t>(tile_at);
    wait_for_copies<0>();
    const bool adds_row = makes_row && start + kPositions > last;
    if constexpr (!kIsBf16<Number>) {
      const auto* raw = reinterpret_cast<const Number*>(shared + stage_at(stage));
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kPositions * kWidth / 8; i += kThreads)
        if (start + i / (kWidth / 8) != fresh_row)
          *reinterpret_cast<uint4*>(shared + tile_at + place_of(i / (kWidth / 8), i % (kWidth / 8))) =
              Eight<Number>::from_shared(raw + i * 8).pairs();
      if (kScaled && threadIdx.x < kPositions && start + static_cast<int>(threadIdx.x) != fresh_row)
        tile_scales[threadIdx.x] =
            start + static_cast<int>(threadIdx.x) < stored ? __ldcg(scales + start + threadIdx.x) : 0.0F;
    }
    if (adds_row) {
      fresh.put_into<Number>(shared + tile_at, last - start, turn);
      if (kScaled && threadIdx.x % 32 == 0) tile_scales[last - start] = fresh.scale;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();  // the rows are there; both groups are done with those before
    if (group == 1 && start + kPositions < end)
      fetch_rows(base + static_cast<std::uint32_t>(stage_at(stage ^ 1)), rows, in.row_stride,
                 start + kPositions, stored, fresh_row, thread, 128);
    uint4 weight[4];
    if (group == 0) {
      float score[32];
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step) {
        const auto at = static_cast<std::uint32_t>(step / 4 * kBlockBytes + step % 4 * 32);
        score_step(score, along_columns(base + kQueriesAt + at), along_columns(tile + at), step == 0 ? 0 : 1);
      }
      wgmma_finish();
#pragma unroll
      for (int j = 0; j < 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int position = 8 * j + 2 * t + i % 2;
          if constexpr (kScaled) score[4 * j + i] *= tile_scales[position];
          if (start + position >= end) score[4 * j + i] = kNothing;
        }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = top[half];
#pragma unroll
        for (int j = 0; j < 8; ++j)
          most = fmaxf(most, fmaxf(score[4 * j + 2 * half], score[4 * j + 2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
        const float change = __expf(top[half] - most);
        top[half] = most;
        float part = 0.0F;
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            score[4 * j + i] = __expf(score[4 * j + i] - most);
            part += score[4 * j + i];
            if constexpr (kScaled) score[4 * j + i] *= tile_scales[8 * j + 2 * t + i % 2];
          }
        sum[half] = sum[half] * change + part;
        if (t == 0) factors[8 * half] = change;
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const float* s = score + 8 * step;
        weights[128 * step] =
            make_uint4(pack2(s[0], s[1]), pack2(s[2], s[3]), pack2(s[4], s[5]), pack2(s[6], s[7]));
      }
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < 4; ++step) weight[step] = weights[128 * step];
    const float factor[2] = {factors[0], factors[8]};
    if (start > first)
#pragma unroll
      for (int j = 0; j < 32; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[4 * j + i] *= factor[i / 2];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      value_step(out, weight[step],
                 along_rows(tile + static_cast<std::uint32_t>(group * 4 * kBlockBytes + step * 16 * 128)));
    wgmma_finish();
  }

  __syncthreads();
  auto* const parts = reinterpret_cast<float*>(shared + kRowsAt);
  if (first < end)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = thread / 32 * 16 + thread % 32 / 4 + 8 * half;
      float* to = parts + head * (kRank + kPartHead);
      sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 2);
      if (head >= head_count) continue;
      if (group == 0 && t == 0) to[0] = top[half], to[1] = sum[half];
#pragma unroll
      for (int j = 0; j < 32; ++j)
        *reinterpret_cast<float2*>(to + kPartHead + 256 * group + 8 * j + 2 * t) =
            make_float2(out[4 * j + 2 * half], out[4 * j + 2 * half + 1]);
    }
  finish_piece<1, kHeads, kRank, false, kFactors>(shape, in, pieces, token, first_head, head_count, active,
                                                  parts, [] {});
#endif
}

// Code that is not for sm_90a has no body, and so nothing in shared memory.
bool is_compiled() {
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, attend_rows_hopper<__nv_bfloat16>));
  return attributes.sharedSizeBytes > 0;
}

template <class Number>
void run_rows(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const int head_blocks = (shape.heads + kHeads - 1) / kHeads;
  const auto kernel = attend_rows_hopper<Number>;
  const Pieces pieces = make_pieces(cuda, shape,
                                    {.head_blocks = head_blocks,
                                     .heads = std::min(kHeads, shape.heads),
                                     .factors = kFactors,
                                     .least = kPositions,
                                     .kernel = reinterpret_cast<const void*>(kernel),
                                     .threads = kThreads,
                                     .shared_bytes = kSharedBytes,
                                     .most_cluster = most_cluster(kernel),
                                     .cluster_of_many = kMostCluster});
  launch_clusters(kernel,
                  {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                                static_cast<unsigned>(shape.tokens)),
                   .threads = kThreads,
                   .shared_bytes = kSharedBytes},
                  pieces.cluster, cuda.state().stream, shape, in, pieces);
}

}  // namespace

bool attends_latent_on_hopper(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  static const bool is_there = is_compiled();
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(in.q) % 16 == 0 && in.q_strides.token % 4 == 0 &&
                          in.q_strides.head % 4 == 0;
  return is_there && !attend_path().is_portable && is_aligned && attends_latent(cache_type, shape, in);
}

void attend_latent_on_hopper(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                             const AttendInputs& in) {
  if (cache_type == NumberType::bf16) return run_rows<__nv_bfloat16>(cuda, shape, in);
  if (cache_type == NumberType::fp8) return run_rows<__nv_fp8_e4m3>(cuda, shape, in);
  run_rows<std::int8_t>(cuda, shape, in);
}

}  // namespace moetune::cuda
