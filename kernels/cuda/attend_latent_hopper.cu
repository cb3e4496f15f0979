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

#include "kernels/cuda/latent_rows_hopper.cuh"
#include "kernels/cuda/quad.cuh"

namespace moetune::cuda {
namespace {

using namespace latent_hopper;

// Grid: (pieces, blocks of block_heads heads, at most 64, tokens).
template <class Number>
__global__ void __launch_bounds__(kThreads, 1)
    attend_rows_hopper(AttendShape shape, AttendInputs in, Pieces pieces, int block_heads) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr bool kScaled = kHasCacheScales<Number>;
  const bool places = in.placing.is_asked;
  // What follows has weights fetched as soon as it starts: only when those of the projections in front of us
  // have come, whose end it would put off.
  const auto wait = [] {
    wait_for_previous();
    let_next_start();
  };
  if (!places) wait();
  // With placing, what is read before wait_for_previous() is older than this step: its first kernel waits for
  // all before it.
  const int token = static_cast<int>(blockIdx.z);
  const int last = in.positions[token];
  const auto [begin, each, active, all] = cut_of(shape, last, pieces.count, kPositions, kPositions);
  if (static_cast<int>(blockIdx.x) >= (active + pieces.cluster - 1) / pieces.cluster * pieces.cluster) {
    if (places) wait();
    return;
  }
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const int first_head = static_cast<int>(blockIdx.y) * block_heads;
  const int head_count = min(block_heads, shape.heads - first_head);
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
    wait();
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
    stage_queries<Number>(shared + kQueriesAt, shape, in, token, first_head, head_count, turn, staging_warps);

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
      widen_rows(shared + tile_at, raw, fresh_row - start);
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
        score_step<Number>(score, along_columns(base + kQueriesAt + at), along_columns(tile + at),
                           step == 0 ? 0 : 1);
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
        most = quad_max(most);
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
        weights[128 * step] = make_uint4(operands_of<Number>(s[0], s[1]), operands_of<Number>(s[2], s[3]),
                                         operands_of<Number>(s[4], s[5]), operands_of<Number>(s[6], s[7]));
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
      value_step<Number>(
          out, weight[step],
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
      sum[half] = quad_sum(sum[half]);
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

// What a block spends on queries and on its part of the join grows with its heads, what it spends on a turn
// does not: few heads a block, until every multiprocessor has several turns. H200, DeepSeek-V3, us at 16, 32
// and 64 heads a block: one sequence at 512 positions 8.8, 11.0, 17.0, at 4,096 21.6, 22.2, 24.6, at 8,192
// 32.0, 27.5, 27.9; eight sequences at 512 positions 15.7, 21.1, 37.9.
int heads_of_block(Cuda& cuda, const AttendShape& shape, const void* kernel) {
  const int most_turns = 4 * blocks_at_once(cuda, kernel, kThreads, kSharedBytes, 1);
  const std::int64_t turns_of_line =
      std::int64_t{shape.tokens} * ((shape.capacity + kPositions - 1) / kPositions);
  for (const int heads : {16, 32})
    if ((shape.heads + heads - 1) / heads * turns_of_line <= most_turns) return heads;
  return kHeads;
}

template <class Number>
void run_rows(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const auto kernel = attend_rows_hopper<Number>;
  const int block_heads = heads_of_block(cuda, shape, reinterpret_cast<const void*>(kernel));
  const int head_blocks = (shape.heads + block_heads - 1) / block_heads;
  const Pieces pieces = make_pieces(cuda, shape,
                                    {.head_blocks = head_blocks,
                                     .heads = std::min(block_heads, shape.heads),
                                     .factors = kFactors,
                                     .least = kPositions,
                                     .kernel = reinterpret_cast<const void*>(kernel),
                                     .threads = kThreads,
                                     .shared_bytes = kSharedBytes,
                                     .most_cluster = most_cluster(kernel),
                                     .cluster_of_many = kMostCluster,
                                     .may_be_wide = true});
  launch_clusters(kernel,
                  {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                                static_cast<unsigned>(shape.tokens)),
                   .threads = kThreads,
                   .shared_bytes = kSharedBytes},
                  pieces.cluster, cuda.state().stream, shape, in, pieces, block_heads);
}

}  // namespace

bool attends_latent_on_hopper(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  static const bool is_there = is_compiled();
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(in.q) % 16 == 0 && in.q_strides.token % 4 == 0 &&
                          in.q_strides.head % 4 == 0;
  return is_there && !kernel_path().is_portable && is_aligned && attends_latent(cache_type, shape, in);
}

void attend_latent_on_hopper(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                             const AttendInputs& in) {
  if (cache_type == NumberType::bf16) return run_rows<__nv_bfloat16>(cuda, shape, in);
  if (cache_type == NumberType::fp8) return run_rows<__nv_fp8_e4m3>(cuda, shape, in);
  run_rows<std::int8_t>(cuda, shape, in);
}

}  // namespace moetune::cuda
