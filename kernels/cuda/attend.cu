#include "kernels/cuda/attend_join.cuh"
#include "kernels/cuda/cache_number.cuh"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace moetune::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kLeast = 32;  // positions of a piece, so that short contexts are joined from few

// Eight neighbouring elements of a cache row.
template <class Number>
__device__ __forceinline__ void load_eight_of(float (&to)[8], const Number* from, int left, bool is_aligned) {
  if (is_aligned && left >= 8) {
    alignas(16) Number numbers[8];
    if constexpr (sizeof(Number) == 4) {
      reinterpret_cast<uint4*>(numbers)[0] = reinterpret_cast<const uint4*>(from)[0];
      reinterpret_cast<uint4*>(numbers)[1] = reinterpret_cast<const uint4*>(from)[1];
    } else if constexpr (sizeof(Number) == 2) {
      reinterpret_cast<uint4*>(numbers)[0] = reinterpret_cast<const uint4*>(from)[0];
    } else {
      reinterpret_cast<uint2*>(numbers)[0] = reinterpret_cast<const uint2*>(from)[0];
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = widen(numbers[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = i < left ? widen(from[i]) : 0.0F;
}
// One kernel for all types: this path is for shapes that the tensor cores do not take, and for exact ones.
__device__ __forceinline__ void load_eight(float (&to)[8], NumberType type, const void* row,
                                           std::int64_t column, int left, bool is_aligned) {
  switch (type) {
    case NumberType::f32:
      return load_eight_of(to, static_cast<const float*>(row) + column, left, is_aligned);
    case NumberType::f16:
      return load_eight_of(to, static_cast<const __half*>(row) + column, left, is_aligned);
    case NumberType::bf16:
      return load_eight_of(to, static_cast<const __nv_bfloat16*>(row) + column, left, is_aligned);
    case NumberType::fp8:
      return load_eight_of(to, static_cast<const __nv_fp8_e4m3*>(row) + column, left, is_aligned);
    default:
      return load_eight_of(to, static_cast<const std::int8_t*>(row) + column, left, is_aligned);
  }
}

// Softmax state of one head.
struct State {
  float most;
  float sum;
};
__device__ __forceinline__ float rescaled(State& state, float most) {
  const float factor = __expf(state.most - most);
  state.sum *= factor;
  state.most = most;
  return factor;
}

// lanes share a position, each with `chunks` times eight elements of its row; HB query heads at once.
// Grid: (pieces, kv heads x blocks of HB heads, tokens).
template <int lanes, int chunks, int HB>
__global__ void __launch_bounds__(32 * kWarps)
    attend_piece(NumberType type, AttendShape shape, AttendInputs in, Pieces pieces, bool is_aligned) {
  constexpr int kGroups = kWarps * 32 / lanes;  // positions at once
  extern __shared__ float shared[];             // (groups, HB, value_width + 2)
  let_next_start();
  wait_for_previous();
  const int token = static_cast<int>(blockIdx.z);
  const int shared_by = shape.heads / shape.kv_heads;
  const int head_blocks = (shared_by + HB - 1) / HB;
  const int kv_head = static_cast<int>(blockIdx.y) / head_blocks;
  const int first_head = kv_head * shared_by + static_cast<int>(blockIdx.y) % head_blocks * HB;
  const int head_count = min(HB, kv_head * shared_by + shared_by - first_head);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes;

  const auto [begin, each, active, all] = cut_of(shape, in.positions[token], pieces.count, kLeast, 1);
  if (static_cast<int>(blockIdx.x) >= active) return;
  const int first = begin + static_cast<int>(blockIdx.x) * each;
  const int end = min(all, first + each);
  const std::int64_t base = in.sequences[token] * in.slot_stride + kv_head * in.head_stride;
  const bool is_one_row = in.keys == in.values;
  const bool is_scaled = type == NumberType::int8;
  const std::int64_t scales_at = in.sequences[token] * in.scale_slot_stride + kv_head;

  float q[HB][chunks][8];
#pragma unroll
  for (int h = 0; h < HB; ++h)
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = (c * lanes + lane) * 8 + i;
        float value = 0.0F;
        if (h < head_count && column < shape.key_width)
          value = column < in.q_width
                      ? in.q[token * in.q_strides.token + (first_head + h) * in.q_strides.head + column]
                      : in.q_rest[token * in.q_rest_strides.token +
                                  (first_head + h) * in.q_rest_strides.head + column - in.q_width];
        q[h][c][i] = value * shape.scale;
      }

  State state[HB];
  float sums[HB][chunks][8] = {};
#pragma unroll
  for (int h = 0; h < HB; ++h) state[h] = {kNothing, 0.0F};
  float key[chunks][8];
  float value[chunks][8];
  const auto load = [&](int position, float(&k)[chunks][8], float(&v)[chunks][8]) {
    const std::int64_t row = std::int64_t{position < end ? position : first} * in.row_stride;
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      const int column = (c * lanes + lane) * 8;
      load_eight(k[c], type, in.keys, base + row + column, shape.key_width - column, is_aligned);
      if (!is_one_row)
        load_eight(v[c], type, in.values, base + row + column, shape.value_width - column, is_aligned);
    }
  };
  load(first + group, key, value);
  for (int start = first; start < end; start += kGroups) {  // all lanes stay together: the shuffles need them
    const bool is_seen = start + group < end;
    const std::int64_t scale_at = scales_at + std::int64_t{is_seen ? start + group : first} * shape.kv_heads;
    const float key_scale = is_scaled ? in.key_scales[scale_at] : 1.0F;
    const float value_scale = is_scaled ? in.value_scales[scale_at] : 1.0F;
    float next_key[chunks][8];  // under way while this turn computes
    float next_value[chunks][8];
    load(start + kGroups + group, next_key, next_value);
#pragma unroll
    for (int h = 0; h < HB; ++h) {
      float score = 0.0F;
#pragma unroll
      for (int c = 0; c < chunks; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i) score += q[h][c][i] * key[c][i];
#pragma unroll
      for (int offset = lanes / 2; offset > 0; offset /= 2)
        score += __shfl_xor_sync(0xFFFFFFFFU, score, offset);
      if (!is_seen) continue;
      score *= key_scale;
      const float factor = score > state[h].most ? rescaled(state[h], score) : 1.0F;
      float weight = __expf(score - state[h].most);
      state[h].sum += weight;
      weight *= value_scale;
#pragma unroll
      for (int c = 0; c < chunks; ++c)
#pragma unroll
        for (int i = 0; i < 8; ++i)
          sums[h][c][i] = sums[h][c][i] * factor + weight * (is_one_row ? key[c][i] : value[c][i]);
    }
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        key[c][i] = next_key[c][i];
        if (!is_one_row) value[c][i] = next_value[c][i];
      }
  }

  const int stride = shape.value_width + kPartHead;
#pragma unroll
  for (int h = 0; h < HB; ++h) {
    if (h >= head_count) break;
    float* to = shared + (group * head_count + h) * stride;
    if (lane == 0) to[0] = state[h].most, to[1] = state[h].sum;
#pragma unroll
    for (int c = 0; c < chunks; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = (c * lanes + lane) * 8 + i;
        if (column < shape.value_width) to[kPartHead + column] = sums[h][c][i];
      }
  }
  finish_piece<kGroups, HB, 0, false, HB * kMostParts>(shape, in, pieces, token, first_head, head_count,
                                                       active, shared, [] {});
}

bool is_aligned_for_vectors(const AttendInputs& in) {
  const auto aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
  return in.slot_stride % 8 == 0 && in.row_stride % 8 == 0 && in.head_stride % 8 == 0 && aligned(in.keys) &&
         aligned(in.values);
}

template <int lanes, int chunks, int HB>
void run_pieces(Cuda& cuda, NumberType type, const AttendShape& shape, const AttendInputs& in) {
  constexpr int kGroups = kWarps * 32 / lanes;
  const int shared_by = shape.heads / shape.kv_heads;
  const int head_blocks = (shared_by + HB - 1) / HB * shape.kv_heads;
  const auto kernel = attend_piece<lanes, chunks, HB>;
  const int shared_bytes =
      kGroups * std::min(HB, shared_by) * (shape.value_width + kPartHead) * static_cast<int>(sizeof(float));
  const Pieces pieces = make_pieces(cuda, shape,
                                    {.head_blocks = head_blocks,
                                     .heads = std::min(HB, shared_by),
                                     .factors = HB * kMostParts,
                                     .least = kLeast,
                                     .kernel = reinterpret_cast<const void*>(kernel),
                                     .threads = 32 * kWarps,
                                     .shared_bytes = shared_bytes,
                                     .most_cluster = 1,
                                     .cluster_of_many = 1});
  const bool is_aligned = is_aligned_for_vectors(in);
  launch(kernel,
         {.grid = dim3(static_cast<unsigned>(pieces.count), static_cast<unsigned>(head_blocks),
                       static_cast<unsigned>(shape.tokens)),
          .threads = 32 * kWarps,
          .shared_bytes = shared_bytes},
         cuda.state().stream, true, type, shape, in, pieces, is_aligned);
}

}  // namespace

int blocks_at_once(Cuda& cuda, const void* kernel, int threads, int shared_bytes, int cluster) {
  static std::mutex lock;  // ranks of one process ask side by side
  static std::map<std::tuple<const void*, int, int>, int> known;
  const std::lock_guard guard(lock);
  const auto [place, is_new] = known.try_emplace({kernel, shared_bytes, cluster}, 0);
  if (!is_new) return place->second;
  ask_for_shared(kernel, shared_bytes);
  if (cluster == 1) {
    CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&place->second, kernel, threads,
                                                           static_cast<std::size_t>(shared_bytes)));
    return place->second *= cuda.state().multiprocessors;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cluster > kMostCluster) ask_for_wide_clusters(kernel);
  CUDA_TRY(cudaOccupancyMaxActiveClusters(&place->second, kernel, &config));
  return place->second *= cluster;
}

Pieces make_pieces(Cuda& cuda, const AttendShape& shape, const PiecesOf& of) {
  const int lines = std::max(1, of.head_blocks * shape.tokens);
  const int most = std::clamp((shape.capacity + of.least - 1) / of.least, 1, kMostPieces);
  const auto fitting = [&](int cluster) {
    const int there = blocks_at_once(cuda, of.kernel, of.threads, of.shared_bytes, cluster) / lines;
    // What is joined at the end: a part of each cluster, of the heads that a block has then.
    const int joined = std::min(kMostParts, of.factors / ((of.heads + cluster - 1) / cluster));
    return std::min(std::clamp(there, 1, most) / cluster, joined) * cluster;
  };
  Pieces pieces{fitting(1), 1, nullptr, nullptr};
  const int single = std::min(most, blocks_at_once(cuda, of.kernel, of.threads, of.shared_bytes, 1) / lines);
  if (of.may_be_wide && of.most_cluster > 1 && single > kMostCluster && single <= kWideCluster &&
      kernel_path().most_cluster >= kWideCluster &&
      blocks_at_once(cuda, of.kernel, of.threads, of.shared_bytes, kWideCluster) >= kWideCluster * lines)
    return {kWideCluster, kWideCluster, nullptr, nullptr};
  const bool is_one_cluster = 3 * single <= 4 * of.most_cluster;
  const int largest = is_one_cluster ? of.most_cluster : std::min(of.most_cluster, of.cluster_of_many);
  for (int cluster = largest; cluster > 1 && pieces.cluster == 1; cluster /= 2) {
    if (cluster > single) continue;
    const int count = fitting(cluster);
    if (count > 0 && 4 * count >= 3 * single) pieces.count = count, pieces.cluster = cluster;
  }
  if (pieces.count == pieces.cluster) return pieces;
  pieces.arrived = cuda.state().counters(of.head_blocks * shape.tokens * pieces.cluster);
  pieces.partial = static_cast<float*>(
      cuda.state().scratch(static_cast<std::size_t>(shape.tokens) * static_cast<std::size_t>(shape.heads) *
                           static_cast<std::size_t>(pieces.count / pieces.cluster) *
                           static_cast<std::size_t>(shape.value_width + kPartHead) * sizeof(float)));
  return pieces;
}

bool attend_places(NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  const AttendPlacing& placing = in.placing;
  if (!is_aligned_for_vectors(in)) return false;
  if (attends_latent(cache_type, shape, in))
    return placing.frequencies != nullptr && placing.query_norm == nullptr;
  return attends_with_tensor_cores(cache_type, shape, in) && !placing.is_interleaved;
}

void attend(Cuda& cuda, NumberType cache_type, const AttendShape& shape, const AttendInputs& in) {
  if (shape.tokens == 0 || shape.heads == 0) return;
  if (is_aligned_for_vectors(in)) {
    if (attends_with_tensor_cores(cache_type, shape, in))
      return attend_with_tensor_cores(cuda, cache_type, shape, in);
    if (attends_latent_on_hopper(cache_type, shape, in))
      return attend_latent_on_hopper(cuda, cache_type, shape, in);
    if (attends_latent(cache_type, shape, in)) return attend_latent(cuda, cache_type, shape, in);
  }
  with_cache_type(cache_type, [](auto) {});  // the types that there are
  const int width = std::max(shape.key_width, shape.value_width);
  if (width <= 64) return run_pieces<8, 1, 4>(cuda, cache_type, shape, in);
  if (width <= 128) return run_pieces<16, 1, 8>(cuda, cache_type, shape, in);
  if (width <= 256) return run_pieces<32, 1, 8>(cuda, cache_type, shape, in);
  if (width <= 768) return run_pieces<32, 3, 4>(cuda, cache_type, shape, in);
  throw std::invalid_argument("a cache row of " + std::to_string(width) + " elements (accepted: up to 768)");
}

}  // namespace moetune::cuda
