// Attention of up to 16 heads over one compressed row per position (MLA: 512 latent elements, then 64 rotated
// ones). A block takes 64 positions at a time into shared memory, read once for scores and values: eight
// warps have eight positions each for the scores, then 64 columns each of the values.
#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/latent_rows.cuh"
#include "kernels/cuda/quad.cuh"
#include "kernels/cuda/tile_stream.cuh"

#include <algorithm>

namespace moetune::cuda {
namespace {

using namespace latent_rows;

// Grid: (pieces, blocks of 16 heads, tokens).
template <class Number>
__global__ void __launch_bounds__(32 * kWarps, 1)
    attend_rows(AttendShape shape, AttendInputs in, Pieces pieces) {
  extern __shared__ __align__(16) unsigned char shared[];
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
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4;
  const int t = lane % 4;
  const std::int64_t slot = in.sequences[token];
  Number* rows = static_cast<Number*>(in.keys) + slot * in.slot_stride;
  float* scales = in.key_scales + slot * in.scale_slot_stride;
  const bool has_fresh = places && first < end && end == all;
  const int stored = has_fresh ? last : end;  // positions from here on are not read from the cache
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  unsigned char* const raw_tiles = kIsBf16<Number> ? shared + kTilesAt : shared + kTilesAt + kTileBytes;

  const auto fetch = [&](int start) {
    constexpr int kPieces = kWidth * static_cast<int>(sizeof(Number)) / 16;  // of a row
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(raw_tiles));
    if (start < end)
      for (int i = static_cast<int>(threadIdx.x); i < kPositions * kPieces; i += 32 * kWarps) {
        const int row = i / kPieces;
        const int piece = i % kPieces;
        const bool exists = start + row < stored;
        copy_async_or_zero(
            to + static_cast<std::uint32_t>(row * kRawRowBytes<Number> + piece * 16),
            reinterpret_cast<const unsigned char*>(rows + (exists ? start + row : 0) * in.row_stride) +
                piece * 16,
            exists);
      }
    commit_copies();
  };
  fetch(first);

  // Queries as bf16, and the new row.
  constexpr int kPerLane = kRank / 32;
  Pair fresh_pair{};
  float fresh[kPerLane];
  float fresh_scale = 0.0F;
  if (first < end) {
    const AttendPlacing& placing = in.placing;
    float cosine = 1.0F;
    float sine = 0.0F;
    if (places) {
      // Not __sincosf: at position 100,000 its argument reduction is off by more than bf16 can hide.
      sincosf(static_cast<float>(last) * placing.frequencies[lane], &sine, &cosine);
      cosine *= placing.rope_scale;
      sine *= placing.rope_scale;
      wait_for_previous();
    }
    float latent[kHeads / kWarps][kPerLane];
    Pair turned[kHeads / kWarps];
#pragma unroll
    for (int i = 0; i < kHeads / kWarps; ++i) {
      const int h = warp + i * kWarps;
      if (h >= head_count) continue;
      const float* from = in.q + token * in.q_strides.token + (first_head + h) * in.q_strides.head;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) latent[i][c] = from[lane + 32 * c];
      turned[i] =
          load_pair(in.q_rest + token * in.q_rest_strides.token + (first_head + h) * in.q_rest_strides.head,
                    placing.is_interleaved);
    }
    if (has_fresh && warp == kWarps - 1) {
      const float* from = placing.new_keys + token * placing.new_key_strides.token;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) fresh[c] = from[lane + 32 * c];
      fresh_pair = rotated(load_pair(from + kRank, placing.is_interleaved), cosine, sine);
      float squares = 0.0F;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) squares += fresh[c] * fresh[c];
      const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(kRank) + placing.eps);
      float largest = fmaxf(fabsf(fresh_pair.first), fabsf(fresh_pair.second));
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) {
        if (placing.key_norm != nullptr) fresh[c] *= inverse * placing.key_norm[lane + 32 * c];
        largest = fmaxf(largest, fabsf(fresh[c]));
      }
      if constexpr (kScaled) fresh_scale = cache_scale(warp_max(largest));
      if (blockIdx.y == 0) {
        Number* to = rows + last * in.row_stride;
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) to[lane + 32 * c] = cached<Number>(fresh[c], fresh_scale);
        store_pair(to + kRank, fresh_pair, placing.is_interleaved, fresh_scale);
        if (kScaled && lane == 0) scales[last] = fresh_scale;
      }
    }
#pragma unroll
    for (int i = 0; i < kHeads / kWarps; ++i) {
      const int h = warp + i * kWarps;
      auto* to = reinterpret_cast<__nv_bfloat16*>(shared + kQueriesAt + h * kRowBytes);
      const bool exists = h < head_count;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c)
        to[lane + 32 * c] = __float2bfloat16_rn(exists ? latent[i][c] * shape.scale : 0.0F);
      Pair pair = exists ? turned[i] : Pair{};
      if (places) pair = rotated(pair, cosine, sine);
      store_pair(to + kRank, {pair.first * shape.scale, pair.second * shape.scale}, placing.is_interleaved,
                 0.0F);
    }
  } else if (places) {
    wait_for_previous();
  }

  float top[2] = {kNothing, kNothing};  // of heads g and g + 8
  float sum[2] = {};                    // this lane's positions
  float out[8][4] = {};                 // heads x columns 64 warp ..
  for (int start = first; start < end; start += kPositions) {
    wait_for_copies<0>();
    __syncthreads();  // the tile is there
    const std::uint32_t tile = base + static_cast<std::uint32_t>(kTilesAt);
    unsigned char* const tile_bytes = shared + kTilesAt;
    auto* const tile_scales = reinterpret_cast<float*>(shared + kScalesAt);
    if constexpr (!kIsBf16<Number>) {
      const unsigned char* raw = raw_tiles;
      for (int i = static_cast<int>(threadIdx.x); i < kPositions * kWidth / 8; i += 32 * kWarps) {
        const int row = i / (kWidth / 8);
        const int eight = i % (kWidth / 8);
        *reinterpret_cast<uint4*>(tile_bytes + row * kRowBytes + eight * 16) =
            Eight<Number>::from_shared(
                reinterpret_cast<const Number*>(raw + row * kRawRowBytes<Number> + eight * 8))
                .pairs();
      }
      if (kScaled && threadIdx.x < kPositions) {
        const int position = start + static_cast<int>(threadIdx.x);
        tile_scales[threadIdx.x] = position < stored ? __ldcg(scales + position) : 0.0F;
      }
    }
    if (has_fresh && start + kPositions > last) {
      if constexpr (!kIsBf16<Number>) __syncthreads();
      if (warp == kWarps - 1) {
        auto* to = reinterpret_cast<__nv_bfloat16*>(tile_bytes + (last - start) * kRowBytes);
        const auto kept = [&](float value) { return widen(cached<Number>(value, fresh_scale)); };
#pragma unroll
        for (int c = 0; c < kPerLane; ++c) to[lane + 32 * c] = __float2bfloat16_rn(kept(fresh[c]));
        store_pair(to + kRank, {kept(fresh_pair.first), kept(fresh_pair.second)}, in.placing.is_interleaved,
                   0.0F);
        if (kScaled && lane == 0) tile_scales[last - start] = fresh_scale;
      }
      __syncthreads();
    } else if constexpr (!kIsBf16<Number>) {
      __syncthreads();
    }

    // Scores of positions 8 warp .. + 7, in four chains.
    float chain[4][4] = {};
    const std::uint32_t query_at =
        base + kQueriesAt + static_cast<std::uint32_t>(lane % 16 * kRowBytes + lane / 16 * 16);
    const std::uint32_t key_at =
        tile + static_cast<std::uint32_t>((8 * warp + lane % 8) * kRowBytes + lane / 8 * 16);
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
      const uint4 a = load_blocks(query_at + step * 32);
      const uint4 b = load_blocks(query_at + step * 32 + 32);
      const uint4 k = load_blocks(key_at + step * 32);
      mma(chain[step % 4], a.x, a.y, a.z, a.w, k.x, k.y);
      mma(chain[step % 4 + 1], b.x, b.y, b.z, b.w, k.z, k.w);
    }
    float score[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = 8 * warp + 2 * t + i % 2;
      score[i] = chain[0][i] + chain[1][i] + (chain[2][i] + chain[3][i]);
      if constexpr (kScaled) score[i] *= tile_scales[position];
      if (start + position >= end) score[i] = kNothing;
    }
    auto* const tops = reinterpret_cast<float*>(shared + kTopsAt);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(score[2 * half], score[2 * half + 1]);
      most = quad_max(most);
      if (t == 0) tops[warp * kHeads + g + 8 * half] = most;
    }
    __syncthreads();
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = top[half];
#pragma unroll
      for (int other = 0; other < kWarps; ++other) most = fmaxf(most, tops[other * kHeads + g + 8 * half]);
      factor[half] = __expf(top[half] - most);
      top[half] = most;
      float weight[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        // A turn has at least one position, so that what does not exist is far below the largest.
        weight[i] = __expf(score[2 * half + i] - most);
      }
      sum[half] = sum[half] * factor[half] + (weight[0] + weight[1]);
      if constexpr (kScaled)
#pragma unroll
        for (int i = 0; i < 2; ++i) weight[i] *= tile_scales[8 * warp + 2 * t + i];
      *reinterpret_cast<std::uint32_t*>(shared + kWeightsAt + (g + 8 * half) * kWeightBytes +
                                        (8 * warp + 2 * t) * 2) = pack2(weight[0], weight[1]);
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[j][i] *= factor[i / 2];
    const std::uint32_t weight_at =
        base + kWeightsAt + static_cast<std::uint32_t>(lane % 16 * kWeightBytes + lane / 16 * 16);
    const std::uint32_t value_at =
        tile + static_cast<std::uint32_t>(lane % 16 * kRowBytes + (64 * warp + lane / 16 * 8) * 2);
#pragma unroll
    for (int step = 0; step < kPositions / 16; ++step) {
      const uint4 a = load_blocks(weight_at + step * 32);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        const uint4 v =
            load_blocks_turned(value_at + static_cast<std::uint32_t>(step * 16 * kRowBytes + j * 16));
        mma(out[j], a.x, a.y, a.z, a.w, v.x, v.y);
        mma(out[j + 1], a.x, a.y, a.z, a.w, v.z, v.w);
      }
    }
    if (start + kPositions >= end) break;
    __syncthreads();  // before the tile is filled again
    fetch(start + kPositions);
  }

  // One part per block: sums of the warps' positions first.
  if (first < end) {
    wait_for_copies<0>();
    __syncthreads();
    auto* const tops = reinterpret_cast<float*>(shared + kTopsAt);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] = quad_sum(sum[half]);
      if (t == 0) tops[warp * kHeads + g + 8 * half] = sum[half];
    }
    __syncthreads();
    auto* const parts = reinterpret_cast<float*>(shared + kTilesAt);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = g + 8 * half;
      if (head >= head_count) continue;
      float* to = parts + head * (kRank + kPartHead);
      if (warp == 0 && t == 0) {
        float total = 0.0F;
        for (int other = 0; other < kWarps; ++other) total += tops[other * kHeads + head];
        to[0] = top[half], to[1] = total;
      }
#pragma unroll
      for (int j = 0; j < 8; ++j)
        *reinterpret_cast<float2*>(to + kPartHead + 64 * warp + 8 * j + 2 * t) =
            make_float2(out[j][2 * half], out[j][2 * half + 1]);
    }
  }
  finish_piece<1, kHeads, kRank, false, kFactors>(shape, in, pieces, token, first_head, head_count, active,
                                                  reinterpret_cast<float*>(shared + kTilesAt), [] {});
}

template <class Number>
void run_rows(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const int head_blocks = (shape.heads + kHeads - 1) / kHeads;
  const auto kernel = attend_rows<Number>;
  const Pieces pieces = make_pieces(cuda, shape,
                                    {.head_blocks = head_blocks,
                                     .heads = std::min(kHeads, shape.heads),
                                     .factors = kFactors,
                                     .least = kPositions,
                                     .kernel = reinterpret_cast<const void*>(kernel),
                                     .threads = 32 * kWarps,
                                     .shared_bytes = kSharedBytes<Number>,
                                     .most_cluster = most_cluster(kernel),
                                     .cluster_of_many = kMostCluster});
  launch_clusters(kernel,
                  {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                                static_cast<unsigned>(shape.tokens)),
                   .threads = 32 * kWarps,
                   .shared_bytes = kSharedBytes<Number>},
                  pieces.cluster, cuda.state().stream, shape, in, pieces);
}

// A tile of bf16 fits wherever this code runs; of bytes, raw and widened, not on the smaller GPUs.
template <class Number>
bool fits() {
  static const int most = [] {
    int device = 0;
    int bytes = 0;
    CUDA_TRY(cudaGetDevice(&device));
    CUDA_TRY(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    cudaFuncAttributes attributes{};
    CUDA_TRY(cudaFuncGetAttributes(&attributes, attend_rows<Number>));
    return bytes - static_cast<int>(attributes.sharedSizeBytes);
  }();
  return kSharedBytes<Number> <= most;
}

bool fits(NumberType cache_type) {
  if (cache_type == NumberType::bf16) return fits<__nv_bfloat16>();
  if (cache_type == NumberType::fp8) return fits<__nv_fp8_e4m3>();
  return cache_type == NumberType::int8 && fits<std::int8_t>();
}

}  // namespace

bool attends_latent(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  return in.keys == in.values && in.q_rest != nullptr && in.q_width == kRank && shape.value_width == kRank &&
         shape.key_width == kWidth && shape.kv_heads == 1 && fits(cache_type);
}

void attend_latent(Cuda& cuda, NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  if (cache_type == NumberType::bf16) return run_rows<__nv_bfloat16>(cuda, shape, in);
  if (cache_type == NumberType::fp8) return run_rows<__nv_fp8_e4m3>(cuda, shape, in);
  run_rows<std::int8_t>(cuda, shape, in);
}

}  // namespace moetune::cuda
