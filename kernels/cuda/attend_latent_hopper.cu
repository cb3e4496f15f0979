// Attention of 64 heads over compressed rows (MLA, 512 + 64) with wgmma: where there are many heads a row is
// worth 2 x 64 products of its elements, and mma.sync would be the limit (the scheme of FlashMLA). Two
// warpgroups, each with half the columns of the result in its registers; the first one also makes scores and
// weights, the second one loads the next 64 rows meanwhile.
//
// Rows lie in shared memory as nine blocks of (64 rows, 64 columns), 128-byte swizzle: for the scores an
// operand along the columns, for the values the same bytes along the rows.
#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/fragment.cuh"
#include "kernels/cuda/tile_stream.cuh"

namespace moetune::cuda {
namespace {

constexpr int kHeads = 64;
constexpr int kPositions = 64;
constexpr int kThreads = 256;
constexpr int kRank = 512;
constexpr int kWidth = kRank + 64;
constexpr int kBlockBytes = kPositions * 128;
constexpr int kRowsBytes = kWidth / 64 * kBlockBytes;
constexpr int kQueriesAt = 0;
constexpr int kRowsAt = kQueriesAt + kRowsBytes;
constexpr int kWeightsAt = kRowsAt + 2 * kRowsBytes;  // (4 steps, 128 threads) x 16 bytes
constexpr int kFactorsAt = kWeightsAt + 4 * 128 * 16;
constexpr int kSharedBytes = kFactorsAt + 128 * 8;
static_assert(kHeads * (kRank + 2) * 4 <= 2 * kRowsBytes);  // the parts take the rows' place

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

// Rows start .. start + 63 by `threads` threads, this one the `thread`-th; zeros from `end` on.
__device__ __forceinline__ void fetch_rows(std::uint32_t to, const __nv_bfloat16* rows, std::int64_t stride,
                                           int start, int end, int thread, int threads) {
  const int piece = thread % 8;
  for (int row = thread / 8; row < kPositions; row += threads / 8) {
    const bool exists = start + row < end;
    const auto* from =
        reinterpret_cast<const unsigned char*>(rows + (exists ? start + row : 0) * stride) + piece * 16;
    const std::uint32_t at = to + static_cast<std::uint32_t>(row * 128 + (piece ^ (row % 8)) * 16);
#pragma unroll
    for (int block = 0; block < kWidth / 64; ++block)
      asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(at + block * kBlockBytes),
                   "l"(from + block * 128), "r"(exists ? 16 : 0));
  }
  commit_copies();
}
#endif

// Grid: (pieces, blocks of 64 heads, tokens).
__global__ void __launch_bounds__(kThreads, 1)
    attend_rows_hopper(AttendShape shape, AttendInputs in, Pieces pieces) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  let_next_start();
  wait_for_previous();
  const int token = static_cast<int>(blockIdx.z);
  const auto [begin, each, active, all] = cut_of(shape, in.positions[token], pieces.count, kPositions);
  if (static_cast<int>(blockIdx.x) >= (active + pieces.cluster - 1) / pieces.cluster * pieces.cluster) return;
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const int first_head = static_cast<int>(blockIdx.y) * kHeads;
  const auto* rows = static_cast<const __nv_bfloat16*>(in.keys) + in.sequences[token] * in.slot_stride;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int group = static_cast<int>(threadIdx.x / 128);
  const int thread = static_cast<int>(threadIdx.x % 128);
  if (first < end)
    fetch_rows(base + kRowsAt, rows, in.row_stride, first, end, static_cast<int>(threadIdx.x), kThreads);

  for (int i = static_cast<int>(threadIdx.x); i < kHeads * kWidth / 8; i += kThreads) {
    const int head = i / (kWidth / 8);
    const int piece = i % (kWidth / 8);
    const float* from =
        piece < kRank / 8
            ? in.q + token * in.q_strides.token + (first_head + head) * in.q_strides.head + piece * 8
            : in.q_rest + token * in.q_rest_strides.token + (first_head + head) * in.q_rest_strides.head +
                  (piece - kRank / 8) * 8;
    const float4 low = *reinterpret_cast<const float4*>(from);
    const float4 high = *reinterpret_cast<const float4*>(from + 4);
    const float scale = shape.scale;
    *reinterpret_cast<uint4*>(shared + kQueriesAt + place_of(head, piece)) =
        make_uint4(pack2(low.x * scale, low.y * scale), pack2(low.z * scale, low.w * scale),
                   pack2(high.x * scale, high.y * scale), pack2(high.z * scale, high.w * scale));
  }

  float top[2] = {kNothing, kNothing};  // of heads 16 warp + lane / 4 and + 8; the first group's
  float sum[2] = {};
  float out[128] = {};
  const int t = static_cast<int>(threadIdx.x % 4);
  auto* const weights = reinterpret_cast<uint4*>(shared + kWeightsAt) + thread;
  auto* const factors = reinterpret_cast<float2*>(shared + kFactorsAt) + thread;
  for (int start = first, stage = 0; start < end; start += kPositions, stage ^= 1) {
    const std::uint32_t tile = base + static_cast<std::uint32_t>(kRowsAt + stage * kRowsBytes);
    wait_for_copies<0>();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();  // the rows are there; both groups are done with those before
    uint4 weight[4];
    float2 factor;
    if (group == 1) {
      if (start + kPositions < end)
        fetch_rows(base + static_cast<std::uint32_t>(kRowsAt + (stage ^ 1) * kRowsBytes), rows, in.row_stride,
                   start + kPositions, end, thread, 128);
    } else {
      float score[32];
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < kWidth / 16; ++step) {
        const auto at = static_cast<std::uint32_t>(step / 4 * kBlockBytes + step % 4 * 32);
        score_step(score, along_columns(base + kQueriesAt + at), along_columns(tile + at), step == 0 ? 0 : 1);
      }
      wgmma_finish();
      if (start + kPositions > end)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            if (start + 8 * j + 2 * t + i % 2 >= end) score[4 * j + i] = kNothing;
      float change[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = top[half];
#pragma unroll
        for (int j = 0; j < 8; ++j)
          most = fmaxf(most, fmaxf(score[4 * j + 2 * half], score[4 * j + 2 * half + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
        change[half] = __expf(top[half] - most);
        top[half] = most;
        float part = 0.0F;
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            score[4 * j + i] = __expf(score[4 * j + i] - most);
            part += score[4 * j + i];
          }
        sum[half] = sum[half] * change[half] + part;
      }
      factor = make_float2(change[0], change[1]);
      *factors = factor;
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const float* s = score + 8 * step;
        weight[step] = make_uint4(pack2(s[0], s[1]), pack2(s[2], s[3]), pack2(s[4], s[5]), pack2(s[6], s[7]));
        weights[128 * step] = weight[step];
      }
    }
    __syncthreads();
    if (group == 1) {
      factor = *factors;
#pragma unroll
      for (int step = 0; step < 4; ++step) weight[step] = weights[128 * step];
    }
#pragma unroll
    for (int j = 0; j < 32; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[4 * j + i] *= i < 2 ? factor.x : factor.y;
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
      float* to = parts + head * (kRank + 2);
      sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 2);
      if (group == 0 && t == 0) to[0] = top[half], to[1] = sum[half];
#pragma unroll
      for (int j = 0; j < 32; ++j)
        *reinterpret_cast<float2*>(to + 2 + 256 * group + 8 * j + 2 * t) =
            make_float2(out[4 * j + 2 * half], out[4 * j + 2 * half + 1]);
    }
  finish_piece<1, kHeads, kRank, 2 * kHeads>(shape, in, pieces, token, first_head, kHeads, active, parts);
#endif
}

// Code that is not for sm_90a has no body, and so nothing in shared memory.
bool is_compiled() {
  cudaFuncAttributes attributes{};
  CUDA_TRY(cudaFuncGetAttributes(&attributes, attend_rows_hopper));
  return attributes.sharedSizeBytes > 0;
}

}  // namespace

bool attends_latent_on_hopper(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  static const bool is_there = is_compiled();
  const auto aligned = [](const void* data, const HeadStrides& strides) {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && strides.token % 4 == 0 &&
           strides.head % 4 == 0;
  };
  return is_there && !attend_path().is_portable && cache_type == NumberType::bf16 &&
         attends_latent(cache_type, shape, in) && shape.heads % kHeads == 0 && aligned(in.q, in.q_strides) &&
         aligned(in.q_rest, in.q_rest_strides);
}

void attend_latent_on_hopper(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const int head_blocks = shape.heads / kHeads;
  const Pieces pieces = make_pieces(cuda, shape, head_blocks, kPositions, cuda.state().multiprocessors,
                                    most_cluster(attend_rows_hopper));
  launch_clusters(attend_rows_hopper,
                  {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                                static_cast<unsigned>(shape.tokens)),
                   .threads = kThreads,
                   .shared_bytes = kSharedBytes},
                  pieces.cluster, cuda.state().stream, shape, in, pieces);
}

}  // namespace moetune::cuda
