// A warp takes 16 positions at a time: scores of up to 16 query heads as one product, then weights times
// values as another (the scheme of FlashAttention-2, arXiv 2307.08691, with heads in place of query
// positions). Keys and values come straight from the cache into registers, eight elements a load: which
// element of a row stands at which place of an operand is free as long as both operands agree, so no
// transposition through shared memory is needed.
//
// Placing (inputs.placing): the first keys and values are on their way before the projections are ready, each
// block norms and rotates the queries it needs, and the block with the last position puts the new row into
// the cache.
#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/head_rows.cuh"

#include <algorithm>

namespace moetune::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kHeads = 16;      // rows of an operand
constexpr int kPositions = 16;  // of a warp's turn
constexpr int kLeast = kWarps * kPositions;

// Element j of two rows of eight, side by side.
__device__ __forceinline__ std::uint32_t pair_of(const uint4& a, const uint4& b, int j) {
  return __byte_perm(word(a, j / 2), word(b, j / 2), j % 2 == 0 ? 0x5410 : 0x7632);
}

// Grid: (pieces, kv heads x blocks of 16 heads, tokens).
template <int width, class Number>
__global__ void __launch_bounds__(32 * kWarps)
    attend_tensor(AttendShape shape, AttendInputs in, Pieces pieces) {
  constexpr int kChunks = width / 32;  // of a key row: 32 elements, two products
  constexpr int kBlocks = width / 64;  // of a value row: 64 elements, eight products
  constexpr bool kScaled = kHasCacheScales<Number>;
  extern __shared__ __align__(16) float parts[];  // pushed_part()
  __shared__ __align__(16) Operand<Number> queries[kHeads][width + 8];
  __shared__ __align__(16) Number fresh[2][width];
  __shared__ float fresh_scale[2];
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
  const auto [begin, each, active, all] = cut_of(shape, last, pieces.count, kLeast, kPositions);
  if (static_cast<int>(blockIdx.x) >= (active + pieces.cluster - 1) / pieces.cluster * pieces.cluster) {
    if (places) wait();
    return;
  }
  if (pieces.cluster > 1) arrive_at_cluster_relaxed();
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const int shared_by = shape.heads / shape.kv_heads;
  const int head_blocks = (shared_by + kHeads - 1) / kHeads;
  const int kv_head = static_cast<int>(blockIdx.y) / head_blocks;
  const int first_head = kv_head * shared_by + static_cast<int>(blockIdx.y) % head_blocks * kHeads;
  const int head_count = min(kHeads, kv_head * shared_by + shared_by - first_head);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4;
  const int t = lane % 4;
  const std::int64_t slot = in.sequences[token];
  const std::int64_t base = slot * in.slot_stride + kv_head * in.head_stride;
  Number* keys = static_cast<Number*>(in.keys) + base;
  Number* values = static_cast<Number*>(in.values) + base;
  const std::int64_t scales_at = slot * in.scale_slot_stride + kv_head;
  const bool has_fresh = places && first < end && end == all;
  // Positions from here on are not read from the cache: they do not exist, or not yet.
  const int stored = has_fresh ? last : end;

  Eight<Number> key[2][kChunks];
  Eight<Number> value[4][kBlocks];
  float key_scale[2][2];  // of the positions of this lane's scores
  float value_scale[2][2];
  const auto load_keys = [&](int start) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const std::int64_t row = std::int64_t{max(0, min(start + 8 * n + g, stored - 1))} * in.row_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) key[n][c] = Eight<Number>::from_global(keys + row + 32 * c + 8 * t);
      if constexpr (kScaled)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          key_scale[n][i] =
              __ldcg(in.key_scales + scales_at +
                     std::int64_t{max(0, min(start + 8 * n + 2 * t + i, stored - 1))} * shape.kv_heads);
    }
  };
  const auto load_values = [&](int start) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t row =
          std::int64_t{max(0, min(start + 2 * t + i / 2 * 8 + i % 2, stored - 1))} * in.row_stride;
#pragma unroll
      for (int c = 0; c < kBlocks; ++c)
        value[i][c] = Eight<Number>::from_global(values + row + 64 * c + 8 * g);
    }
    if constexpr (kScaled)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          value_scale[n][i] =
              __ldcg(in.value_scales + scales_at +
                     std::int64_t{max(0, min(start + 8 * n + 2 * t + i, stored - 1))} * shape.kv_heads);
  };
  int start = first + warp * kPositions;
  if (start < end) {
    load_keys(start);
    load_values(start);
  }

  if (first < end)
    stage_heads<kWarps>(HeadRows<width, kHeads, Number>{queries, fresh, fresh_scale}, shape, in,
                        {token, last, kv_head, first_head, head_count, has_fresh}, wait);
  else if (places)
    wait();
  __syncthreads();

  std::uint32_t q[kChunks][2][4];
  if (start < end)
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 eight = *reinterpret_cast<const uint4*>(&queries[g + 8 * half][32 * c + 8 * t]);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          q[c][m][half] = word(eight, 2 * m);
          q[c][m][2 + half] = word(eight, 2 * m + 1);
        }
      }

  float top[2] = {kNothing, kNothing};  // of heads g and g + 8
  float sum[2] = {};                    // this lane's share
  float out[8 * kBlocks][4] = {};
  for (; start < end; start += kWarps * kPositions) {
    if (has_fresh && start + kPositions > last) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        if (start + 8 * n + g >= last)
#pragma unroll
          for (int c = 0; c < kChunks; ++c) key[n][c] = Eight<Number>::from_shared(fresh[0] + 32 * c + 8 * t);
        if constexpr (kScaled)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (start + 8 * n + 2 * t + i >= last)
              key_scale[n][i] = fresh_scale[0], value_scale[n][i] = fresh_scale[1];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (start + 2 * t + i / 2 * 8 + i % 2 >= last)
#pragma unroll
          for (int c = 0; c < kBlocks; ++c)
            value[i][c] = Eight<Number>::from_shared(fresh[1] + 64 * c + 8 * g);
    }
    float score[2][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const uint4 wide = key[n][c].operands();
#pragma unroll
        for (int m = 0; m < 2; ++m)
          multiply_add<Number>(score[n], q[c][m][0], q[c][m][1], q[c][m][2], q[c][m][3], word(wide, 2 * m),
                               word(wide, 2 * m + 1));
      }
    if constexpr (kScaled)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) score[n][i] *= key_scale[n][i % 2];
    const int next = start + kWarps * kPositions;
    if (next < end) load_keys(next);
    float most[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (start + 8 * n + 2 * t + i % 2 >= end) score[n][i] = kNothing;
        most[i / 2] = fmaxf(most[i / 2], score[n][i]);
      }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 1));
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 2));
    }
    const float factor[2] = {__expf(top[0] - most[0]), __expf(top[1] - most[1])};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      top[half] = most[half];
      sum[half] *= factor[half];
    }
    float weight[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Where all scores so far are "nothing", exp(0) would count positions that do not exist.
        weight[n][i] = score[n][i] == kNothing ? 0.0F : __expf(score[n][i] - most[i / 2]);
        sum[i / 2] += weight[n][i];
        if constexpr (kScaled) weight[n][i] *= value_scale[n][i % 2];
      }
    if (__any_sync(0xFFFFFFFFU, factor[0] != 1.0F || factor[1] != 1.0F))
#pragma unroll
      for (int j = 0; j < 8 * kBlocks; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) out[j][i] *= factor[i / 2];
    const std::uint32_t a[4] = {
        operands_of<Number>(weight[0][0], weight[0][1]), operands_of<Number>(weight[0][2], weight[0][3]),
        operands_of<Number>(weight[1][0], weight[1][1]), operands_of<Number>(weight[1][2], weight[1][3])};
#pragma unroll
    for (int c = 0; c < kBlocks; ++c) {
      const uint4 wide[4] = {value[0][c].operands(), value[1][c].operands(), value[2][c].operands(),
                             value[3][c].operands()};
#pragma unroll
      for (int j = 0; j < 8; ++j)
        multiply_add<Number>(out[8 * c + j], a[0], a[1], a[2], a[3], pair_of(wide[0], wide[1], j),
                             pair_of(wide[2], wide[3], j));
    }
    if (next < end) load_values(next);
  }

  if (pieces.cluster > 1) wait_for_cluster();  // the others have begun
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 1);
    sum[half] += __shfl_xor_sync(0xFFFFFFFFU, sum[half], 2);
    if (g + 8 * half >= head_count || first >= end) continue;
    float* to = pushed_part<kWarps>(pieces, parts, width + kPartHead, warp, g + 8 * half, head_count);
    if (t == 0) to[0] = top[half], to[1] = sum[half];
    // Columns 16 t .. 16 t + 15 of each block of 64 are this lane's.
#pragma unroll
    for (int c = 0; c < kBlocks; ++c)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
          *reinterpret_cast<float4*>(to + kPartHead + 8 * (2 * t + i + 8 * c) + j) =
              make_float4(out[8 * c + j][2 * half + i], out[8 * c + j + 1][2 * half + i],
                          out[8 * c + j + 2][2 * half + i], out[8 * c + j + 3][2 * half + i]);
  }
  finish_piece<kWarps, kHeads, width, true, kHeads * kMostParts>(
      shape, in, pieces, token, first_head, head_count, active, parts, [&] {
        // The new row goes into the cache here: a store still under way would hold up the arrival.
        if (!has_fresh || static_cast<int>(blockIdx.y) % head_blocks != 0) return;
        for (int i = static_cast<int>(threadIdx.x); i < 2 * width; i += 32 * kWarps)
          ((i < width ? keys : values) + last * in.row_stride)[i % width] = fresh[i / width][i % width];
        if (kScaled && threadIdx.x < 2)
          (threadIdx.x == 0 ? in.key_scales
                            : in.value_scales)[scales_at + std::int64_t{last} * shape.kv_heads] =
              fresh_scale[threadIdx.x];
      });
}

template <int width, class Number>
void run_width(Cuda& cuda, const AttendShape& shape, const AttendInputs& in) {
  const int shared_by = shape.heads / shape.kv_heads;
  const int head_blocks = (shared_by + kHeads - 1) / kHeads * shape.kv_heads;
  const auto kernel = attend_tensor<width, Number>;
  const int heads = std::min(kHeads, shared_by);
  const int rows = (heads + kWideCluster - 1) / kWideCluster * kWideCluster;  // whatever the cluster
  const int shared_bytes = kWarps * rows * (width + kPartHead) * static_cast<int>(sizeof(float));
  const Pieces pieces = make_pieces(cuda, shape,
                                    {.head_blocks = head_blocks,
                                     .heads = heads,
                                     .factors = kHeads * kMostParts,
                                     .least = kLeast,
                                     .kernel = reinterpret_cast<const void*>(kernel),
                                     .threads = 32 * kWarps,
                                     .shared_bytes = shared_bytes,
                                     .most_cluster = most_cluster(kernel),
                                     .cluster_of_many = 2,
                                     .may_be_wide = true});
  launch_clusters(kernel,
                  {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                                static_cast<unsigned>(shape.tokens)),
                   .threads = 32 * kWarps,
                   .shared_bytes = shared_bytes},
                  pieces.cluster, cuda.state().stream, shape, in, pieces);
}

}  // namespace

bool attends_with_tensor_cores(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  return (cache_type == NumberType::bf16 || cache_type == NumberType::fp8 ||
          cache_type == NumberType::int8) &&
         in.keys != in.values && in.q_rest == nullptr && shape.key_width == shape.value_width &&
         (shape.key_width == 64 || shape.key_width == 128);
}

void attend_with_tensor_cores(Cuda& cuda, NumberType cache_type, const AttendShape& shape,
                              const AttendInputs& in) {
  const auto with_width = [&](auto number) {
    using Number = decltype(number);
    if (shape.key_width == 64) return run_width<64, Number>(cuda, shape, in);
    run_width<128, Number>(cuda, shape, in);
  };
  if (cache_type == NumberType::bf16) return with_width(__nv_bfloat16{});
  if (cache_type == NumberType::fp8) return with_width(__nv_fp8_e4m3{});
  with_width(std::int8_t{});
}

}  // namespace moetune::cuda
