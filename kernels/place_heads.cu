// One warp a head: its elements stand in shared memory between norm, rotation and cache.
#include "kernels/place_heads.h"

#include <algorithm>

#include "kernels/cuda/cache_number.cuh"
#include "kernels/cuda/view.cuh"

namespace moetune {
namespace {

constexpr int kWarps = 4;

struct Rows {
  float* x;
  std::int64_t token_stride;
  std::int64_t head_stride;
  int heads;
  int width;
  const float* norm;
  int norm_width;
  int rotated;
  void* cache;
  std::int64_t slot_stride;
  std::int64_t row_stride;
  float* scales;
  std::int64_t scale_slot_stride;
};

struct Work {
  Rows rows[PlaceHeads::kMostRows];
  const std::int32_t* sequences;
  const std::int32_t* positions;
  const float* frequencies;
  int half;
  float scale;
  bool interleaved;
  float eps;
  int widest;
};

template <class Number>
__global__ void __launch_bounds__(32 * kWarps) place_heads(Work work) {
  extern __shared__ float shared[];
  cuda::let_next_start();
  cuda::wait_for_previous();
  const auto lane = static_cast<int>(threadIdx.x % 32);
  float* head_row = shared + threadIdx.x / 32 * work.widest;
  int head = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x / 32);
  int kind = 0;
  while (kind < PlaceHeads::kMostRows && head >= work.rows[kind].heads) head -= work.rows[kind++].heads;
  if (kind == PlaceHeads::kMostRows) return;
  const Rows& rows = work.rows[kind];
  const std::int64_t token = blockIdx.y;
  float* x = rows.x + token * rows.token_stride + head * rows.head_stride;
  float squares = 0.0F;
  for (int column = lane; column < rows.width; column += 32) {
    const float value = x[column];
    head_row[column] = value;
    if (column < rows.norm_width) squares += value * value;
  }
  if (rows.norm != nullptr) {
    const float inverse = rsqrtf(cuda::warp_sum(squares) / static_cast<float>(rows.norm_width) + work.eps);
    for (int column = lane; column < rows.norm_width; column += 32)
      head_row[column] *= inverse * rows.norm[column];
  }
  __syncwarp();
  const std::int32_t position = work.positions[token];
  if (rows.rotated != PlaceHeads::kNoRotation) {
    for (int pair = lane; pair < work.half; pair += 32) {
      float& first = head_row[rows.rotated + (work.interleaved ? 2 * pair : pair)];
      float& second = head_row[rows.rotated + (work.interleaved ? 2 * pair + 1 : pair + work.half)];
      // Not __sincosf: at position 100,000 its argument reduction is off by more than bf16 can hide.
      float sine = 0.0F;
      float cosine = 0.0F;
      sincosf(static_cast<float>(position) * work.frequencies[pair], &sine, &cosine);
      sine *= work.scale;
      cosine *= work.scale;
      const float before = first;
      first = before * cosine - second * sine;
      second = second * cosine + before * sine;
    }
    __syncwarp();
  }
  for (int column = lane; column < rows.width; column += 32) x[column] = head_row[column];
  if (rows.cache == nullptr) return;
  Number* to = static_cast<Number*>(rows.cache) + work.sequences[token] * rows.slot_stride +
               position * rows.row_stride + head * rows.width;
  float scale = 0.0F;
  if constexpr (cuda::kHasCacheScales<Number>) {
    float largest = 0.0F;
    for (int column = lane; column < rows.width; column += 32)
      largest = fmaxf(largest, fabsf(head_row[column]));
    scale = cuda::cache_scale(cuda::warp_max(largest));
    if (lane == 0)
      rows.scales[work.sequences[token] * rows.scale_slot_stride + std::int64_t{position} * rows.heads +
                  head] = scale;
  }
  for (int column = lane; column < rows.width; column += 32)
    to[column] = cuda::cached<Number>(head_row[column], scale);
}

}  // namespace

void run(Cuda& cuda, const PlaceHeads& op) {
  Work work{};
  int heads = 0;
  NumberType cache_type = NumberType::f32;
  for (int kind = 0; kind < PlaceHeads::kMostRows; ++kind) {
    const PlaceHeads::Rows& rows = op.rows[static_cast<std::size_t>(kind)];
    if (rows.x.empty()) continue;
    Rows& to = work.rows[kind];
    to.x = rows.x.f32();
    to.token_stride = rows.x.stride(0);
    to.head_stride = rows.x.stride(1);
    to.heads = static_cast<int>(rows.x.dim(1));
    to.width = static_cast<int>(rows.x.dim(2));
    to.norm = rows.norm.empty() ? nullptr : rows.norm.f32();
    to.norm_width = rows.norm.empty() ? 0 : static_cast<int>(rows.norm.dim(0));
    to.rotated = rows.rotated;
    if (!rows.cache.empty()) {
      cache_type = rows.cache.type();
      to.cache = rows.cache.data();
      to.slot_stride = rows.cache.stride(0);
      to.row_stride = rows.cache.stride(1);
      to.scales = rows.scales.empty() ? nullptr : rows.scales.f32();
      to.scale_slot_stride = rows.scales.empty() ? 0 : rows.scales.stride(0);
    }
    heads += to.heads;
    work.widest = std::max(work.widest, to.width);
  }
  const std::int64_t tokens = op.positions.dim(0);
  if (heads == 0 || tokens == 0) return;
  work.sequences = op.sequences.i32();
  work.positions = op.positions.i32();
  work.frequencies = op.frequencies.empty() ? nullptr : op.frequencies.f32();
  work.half = op.frequencies.empty() ? 0 : static_cast<int>(op.frequencies.dim(0));
  work.scale = op.scale;
  work.interleaved = op.interleaved;
  work.eps = op.eps;
  cuda::with_cache_type(cache_type, [&](auto number) {
    cuda::launch(place_heads<decltype(number)>,
                 {.grid = dim3(cuda::blocks_for(heads, kWarps), static_cast<unsigned>(tokens)),
                  .threads = 32 * kWarps,
                  .shared_bytes = kWarps * work.widest * static_cast<int>(sizeof(float))},
                 cuda.state().stream, true, work);
  });
}

}  // namespace moetune
