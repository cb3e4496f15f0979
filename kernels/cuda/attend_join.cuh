// How the parts of a softmax are put together: of a block's groups, of the blocks of a cluster (sm_90: by way
// of their shared memory), and of clusters, by way of global memory. What all attention kernels have in
// common. Start at finish_piece().
#pragma once

#include <algorithm>

#include "kernels/cuda/attend.cuh"
#include "kernels/kernel_path.h"

namespace moetune::cuda {

inline constexpr float kNothing = -1e30F;  // a largest score before any: exp of differences stays finite
inline constexpr int kMostPieces = 128;
inline constexpr int kMostParts = 64;    // that are joined at once
inline constexpr int kMostCluster = 8;   // that every GPU with clusters has
inline constexpr int kWideCluster = 16;  // where a GPU and a kernel allow it

struct Pieces {
  int count;       // capacity: a multiple of cluster
  int cluster;     // blocks of a cluster, neighbours along x
  float* partial;  // (tokens, heads, clusters, kPartHead + value_width): largest score, sum of weights,
                   // weighted values
  int* arrived;    // (tokens, head blocks, cluster), zeros before and after
};

// How the positions a token sees are cut now.
struct Cut {
  int begin;   // first position seen
  int each;    // positions a piece, at least `least` and a multiple of `step`
  int active;  // pieces with positions
  int end;     // behind the last position seen
};
__device__ __forceinline__ Cut cut_of(const AttendShape& shape, int last, int pieces, int least, int step) {
  const int begin = shape.window > 0 ? max(0, last - shape.window + 1) : 0;
  const int seen = last + 1 - begin;
  const int each = max(least, ((seen + pieces - 1) / pieces + step - 1) / step * step);
  return {begin, each, (seen + each - 1) / each, last + 1};
}

__device__ __forceinline__ int cluster_rank() {
#if __CUDA_ARCH__ >= 900
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
#else
  return 0;
#endif
}
// Everything that the cluster's threads wrote before is visible behind it. Threads that have ended are not
// waited for.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
// Orders nothing: that blocks are there, or have read what they wanted.
__device__ __forceinline__ void arrive_at_cluster_relaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The same place in the shared memory of another block of the cluster.
__device__ __forceinline__ float* at_rank(float* place, int rank) {
#if __CUDA_ARCH__ >= 900
  float* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
  return there;
#else
  return place;
#endif
}

// Neighbouring numbers: four where the width is known, else one.
template <int kCount>
struct Numbers {
  float v[kCount];

  static __device__ __forceinline__ Numbers from(const float* at) {
    if constexpr (kCount == 4) {
      const float4 four = *reinterpret_cast<const float4*>(at);
      return {four.x, four.y, four.z, four.w};
    } else {
      return {*at};
    }
  }
  // Past the L1 cache: other blocks wrote it.
  static __device__ __forceinline__ Numbers from_l2(const float* at) {
    if constexpr (kCount == 4) {
      const float4 four = __ldcg(reinterpret_cast<const float4*>(at));
      return {four.x, four.y, four.z, four.w};
    } else {
      return {__ldcg(at)};
    }
  }
  __device__ __forceinline__ void add(float factor, const Numbers& other) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] += factor * other.v[i];
  }
  // Rows of a result may begin anywhere.
  __device__ __forceinline__ void store(float* to, float divisor) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = v[i] / divisor;
  }
};

// A part: largest score, sum of weights, and behind them the weighted values.
inline constexpr int kPartHead = 4;

// In shared memory. kFactors: most heads times parts that are joined at once.
template <int HB, int kFactors>
struct JoinSpace {
  float factors[kFactors];  // (heads, parts)
  float totals[HB];
  float tops[HB];
};

// `heads` heads of `count` parts each: state_of(h, i) is a part's largest score and sum of weights,
// value_of(h, i, column) its weighted values; put(h, column, sum) takes the result, scaled to space.tops[h].
// All threads of the block take part.
template <int kSome, class Space, class StateOf, class ValueOf, class Put>
__device__ __forceinline__ void join_parts(Space& space, int heads, int count, int width,
                                           const StateOf& state_of, const ValueOf& value_of, const Put& put) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int h = static_cast<int>(threadIdx.x / 32); h < heads; h += static_cast<int>(blockDim.x / 32)) {
    float2 state[kMostParts / 32];
    float top = kNothing;
#pragma unroll
    for (int r = 0; r < kMostParts / 32; ++r) {
      state[r] = lane + 32 * r < count ? state_of(h, lane + 32 * r) : make_float2(kNothing, 0.0F);
      top = fmaxf(top, state[r].x);
    }
    top = warp_max(top);
    float total = 0.0F;
#pragma unroll
    for (int r = 0; r < kMostParts / 32; ++r) {
      const float factor = __expf(state[r].x - top);
      if (lane + 32 * r < count) space.factors[h * count + lane + 32 * r] = factor;
      total += factor * state[r].y;
    }
    total = warp_sum(total);
    if (lane == 0) space.totals[h] = total, space.tops[h] = top;
  }
  __syncthreads();
  for (int item = static_cast<int>(threadIdx.x); item < heads * (width / kSome);
       item += static_cast<int>(blockDim.x)) {
    const int h = item / (width / kSome);
    const int column = item % (width / kSome) * kSome;
    Numbers<kSome> sum{};
#pragma unroll 16
    for (int i = 0; i < count; ++i) sum.add(space.factors[h * count + i], value_of(h, i, column));
    put(h, column, sum);
  }
}

// Every block of a cluster joins some of the heads.
__device__ __forceinline__ int heads_of_a_block(const Pieces& pieces, int head_count) {
  return (head_count + pieces.cluster - 1) / pieces.cluster;
}

// Where a group's part of a head goes when it is pushed to the block that joins it: (cluster, kGroups, heads
// of a block) parts in that block's shared memory, which must have nothing else in this place. Not before
// wait_for_cluster() behind a first arrival: the block may not have begun.
template <int kGroups>
__device__ __forceinline__ float* pushed_part(const Pieces& pieces, float* parts, int stride, int group,
                                              int head, int head_count) {
  const int each = heads_of_a_block(pieces, head_count);
  if (pieces.cluster == 1) return parts + (group * each + head) * stride;
  return at_rank(parts + ((cluster_rank() * kGroups + group) * each + head % each) * stride, head / each);
}

// kWidth: the value width where it is known when compiling, else 0.
// parts: (kGroups, heads, kPartHead + value_width) in shared memory: largest score, sum of weights, weighted
// values of each group of this block, not yet synchronised; or, kIsPushed, what pushed_part() says. All
// threads of all blocks of a cluster with positions take part; a block has some where blockIdx.x < active.
// meanwhile() is called while others arrive.
template <int kGroups, int HB, int kWidth, bool kIsPushed, int kFactors, class Meanwhile>
__device__ __forceinline__ void finish_piece(const AttendShape& shape, const AttendInputs& in,
                                             const Pieces& pieces, int token, int first_head, int head_count,
                                             int active, float* parts, const Meanwhile& meanwhile) {
  constexpr int kSome = kWidth != 0 ? 4 : 1;
  using Some = Numbers<kSome>;
  const int width = kWidth != 0 ? kWidth : shape.value_width;
  const int stride = width + kPartHead;
  const int rank = pieces.cluster > 1 ? cluster_rank() : 0;
  const int clusters = (active + pieces.cluster - 1) / pieces.cluster;
  const int cluster = static_cast<int>(blockIdx.x) / pieces.cluster;
  const int sharing =
      min(pieces.cluster, active - cluster * pieces.cluster);  // blocks of this cluster with positions
  const int each = heads_of_a_block(pieces, head_count);
  const int mine = rank * each;
  const int count = min(each, head_count - mine);
  __shared__ JoinSpace<HB, kFactors> space;
  if (pieces.cluster > 1) {
    arrive_at_cluster();
    meanwhile();
    wait_for_cluster();
  } else {
    __syncthreads();
    meanwhile();
  }
  float* const y = in.y + token * in.y_strides.token + (first_head + mine) * in.y_strides.head;
  float* const partial = pieces.partial + (std::int64_t{token} * shape.heads + first_head + mine) *
                                              (pieces.count / pieces.cluster) * stride;
  const int partial_stride = pieces.count / pieces.cluster * stride;
  const auto part_of = [&](int h, int i) {
    if constexpr (kIsPushed) return parts + (i * each + h) * stride;
    float* part = parts + ((i % kGroups) * head_count + mine + h) * stride;
    return pieces.cluster > 1 ? at_rank(part, i / kGroups) : part;
  };
  join_parts<kSome>(
      space, count, sharing * kGroups, width,
      [&](int h, int i) {
        const float* part = part_of(h, i);
        return make_float2(part[0], part[1]);
      },
      [&](int h, int i, int column) { return Some::from(part_of(h, i) + kPartHead + column); },
      [&](int h, int column, const Some& sum) {
        if (clusters == 1) return sum.store(y + h * in.y_strides.head + column, space.totals[h]);
        float* to = partial + h * partial_stride + cluster * stride;
        sum.store(to + kPartHead + column, 1.0F);
        if (column == 0) to[0] = space.tops[h], to[1] = space.totals[h];
      });
  if (!kIsPushed && pieces.cluster > 1)
    arrive_at_cluster_relaxed();  // no block ends while others read what it has
  if (clusters > 1 && count > 0) {
    // Of the blocks that have these heads, the one that finishes last joins the clusters.
    __shared__ bool is_last;
    __syncthreads();
    if (threadIdx.x == 0) {
      int* arrived = pieces.arrived +
                     (token * static_cast<int>(gridDim.y) + static_cast<int>(blockIdx.y)) * pieces.cluster +
                     rank;
      is_last = arrive(arrived) == clusters - 1;
      if (is_last) *arrived = 0;
    }
    __syncthreads();
    if (is_last)
      join_parts<kSome>(
          space, count, clusters, width,
          [&](int h, int i) {
            const float* part = partial + h * partial_stride + i * stride;
            return make_float2(__ldcg(part), __ldcg(part + 1));
          },
          [&](int h, int i, int column) {
            return Some::from_l2(partial + h * partial_stride + i * stride + kPartHead + column);
          },
          [&](int h, int column, const Some& sum) {
            sum.store(y + h * in.y_strides.head + column, space.totals[h]);
          });
  }
  if (!kIsPushed && pieces.cluster > 1) wait_for_cluster();
}

// As launch() does: never for little, so that what is asked for one shape does not forbid another.
inline void ask_for_shared(const void* kernel, int bytes) {
  constexpr int kSharedWithoutAsking = 40 * 1024;
  if (bytes > kSharedWithoutAsking)
    CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
}

inline void ask_for_wide_clusters(const void* kernel) {
  CUDA_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
}

// How many blocks of a launch are there at once in clusters of `cluster`: fewer than single ones, because a
// cluster lies within one group of multiprocessors (H200: 15 clusters of 8 at a block a multiprocessor). A
// launch of more would wait for a second round. Asked once per kernel and shape.
int blocks_at_once(Cuda& cuda, const void* kernel, int threads, int shared_bytes, int cluster);

// Pieces for this many blocks' worth of heads, so that all blocks are there at once where contexts are as
// long as their capacity, each at least `least` positions, in the largest clusters that cost few of them.
// Takes scratch memory.
struct PiecesOf {
  int head_blocks;
  int heads;    // of a block
  int factors;  // kFactors of its join
  int least;
  const void* kernel;
  int threads;
  int shared_bytes;
  int most_cluster;  // 1 where a kernel cannot use clusters
  // The same where one cluster is not enough: what is joined by way of global memory is little for narrow
  // values, and then small clusters are there sooner (H200, Qwen3, 4,096 and 32,768 positions: 9.5 and 24.7
  // us in pairs, 11.8 and 26.4 us in eights); for wide ones it is much (DeepSeek-V3, 4,096 positions: 88 us
  // in pairs, 25 us in eights).
  int cluster_of_many;
  // One cluster of up to 16 blocks in place of two turns of one of 8 (H200, one sequence at 640 and 1,024
  // positions: V2-Lite 8.3 and 7.9 us, 9.6 and 10.0 us in two turns; Qwen3 5.4 and 5.9 us, 5.6 and 7.9 us).
  bool may_be_wide = false;
};
Pieces make_pieces(Cuda& cuda, const AttendShape& shape, const PiecesOf& of);

// launch() with blocks that are neighbours along x in clusters.
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), const LaunchShape& shape, int cluster,
                     cudaStream_t stream, Arguments&&... arguments) {
  if (cluster == 1) return launch(kernel, shape, stream, true, arguments...);
  ask_for_shared(reinterpret_cast<const void*>(kernel), shape.shared_bytes);
  if (cluster > kMostCluster) ask_for_wide_clusters(reinterpret_cast<const void*>(kernel));
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(cluster);
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  config.attrs = attributes;
  config.numAttrs = 2;
  CUDA_TRY(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

// Clusters exist where kernels are compiled for sm_90 and later.
template <class Kernel>
int most_cluster(Kernel* kernel) {
  static const bool has_clusters = waits_for_previous(kernel);
  return has_clusters && !kernel_path().is_portable ? std::min(kMostCluster, kernel_path().most_cluster) : 1;
}

}  // namespace moetune::cuda
