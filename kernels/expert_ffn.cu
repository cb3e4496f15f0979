// Two kernels: gate, up and activation; then down. A block takes 16 rows of one expert and runs over the
// tokens that chose it, 8 NT at a time; which expert that is, it finds on the device. Start at
// run(ExpertFfn).
#include "kernels/cuda/assignments.cuh"
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/tile_stream.cuh"
#include "kernels/expert_ffn.h"
#include "kernels/tile_layout.h"

namespace moetune {
namespace {

using cuda::Assignments;
using cuda::Rows;

constexpr int kStages = 6;

struct Tiles {
  std::int64_t offset;  // from the start of the expert
  std::int64_t tile_bytes;
  int chunks;
  int out;
  int in;
};

Tiles tiles_of(const MatrixLayout& matrix, std::int64_t offset) {
  const TileLayout layout = TileLayout::of(matrix.type, matrix.out, matrix.in);
  return {offset, layout.tile_bytes, static_cast<int>(layout.chunks), static_cast<int>(matrix.out),
          static_cast<int>(matrix.in)};
}

struct Experts {
  const unsigned char* slots;
  std::int64_t bytes;  // of one expert
  Tiles gate;
  Tiles up;
  Tiles down;
};

// The expert a block works for and its pairs.
struct Entry {
  const unsigned char* expert;
  const std::int32_t* pairs;
  int count;
};

__device__ __forceinline__ Entry entry_of(const Experts& experts, const Assignments& assigned) {
  const auto index = static_cast<int>(blockIdx.y);
  if (index >= *assigned.count) return {nullptr, nullptr, 0};
  const int first = assigned.first[index];
  return {experts.slots + assigned.slots[index] * experts.bytes, assigned.pairs + first,
          assigned.first[index + 1] - first};
}

// The int8 scale of a row follows the tile's chunks; other types have applied theirs.
template <NumberType type>
__device__ __forceinline__ float row_scale(const unsigned char* tile, const Tiles& tiles, int row) {
  if constexpr (type == NumberType::int8)
    return reinterpret_cast<const float*>(tile + std::int64_t{tiles.chunks} *
                                                     cuda::TileStream<type, 1, kStages>::kStageBytes)[row];
  return 1.0F;
}

// Warps [0, half) take gate, the others up. activated: (tokens * k, padded inner) bf16, the padding is
// written too.
template <NumberType type, int NT>
__global__ void __launch_bounds__(256) gate_up(Rows x, int k, Experts experts, Assignments assigned,
                                               __nv_bfloat16* activated, std::int64_t activated_stride) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = cuda::TileStream<type, NT, kStages>;
  cuda::wait_for_previous();
  cuda::let_next_start();
  const Entry entry = entry_of(experts, assigned);
  if (entry.count == 0) return;
  if (blockIdx.x * 16 >=
      static_cast<unsigned>(experts.gate.out)) {  // only the padding of a chunk that down will read
    for (int i = static_cast<int>(threadIdx.x); i < entry.count * 16; i += static_cast<int>(blockDim.x))
      activated[entry.pairs[i / 16] * activated_stride + blockIdx.x * 16 + i % 16] =
          __float2bfloat16_rn(0.0F);
    return;
  }
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto half = static_cast<int>(blockDim.x / 64);
  const bool is_gate = warp < half;
  const Tiles tiles{is_gate ? experts.gate.offset : experts.up.offset, experts.gate.tile_bytes,
                    experts.gate.chunks, experts.gate.out, experts.gate.in};
  const int each = (tiles.chunks + half - 1) / half;
  const int first = warp % half * each;
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  auto* blocks = reinterpret_cast<float*>(shared + blockDim.x / 32 * Stream::kRingBytes);
  const unsigned char* tile = entry.expert + tiles.offset + blockIdx.x * tiles.tile_bytes;
  for (int base = 0; base < entry.count; base += 8 * NT) {
    Stream stream;
    stream.start(ring, tile, first, min(tiles.chunks, first + each));
    const float* columns[NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const int index = base + 8 * n + lane / 4;
      columns[n] = index < entry.count ? x.row(entry.pairs[index] / k) : nullptr;
    }
    float sums[NT][4] = {};
    stream.finish(sums, [&](int n, int chunk, int i) {
      return cuda::eight_columns(
          columns[n], chunk * cuda::Format<type>::kChunk + cuda::x_offset<type>(lane % 4, i), tiles.in);
    });
    cuda::store_sums(blocks + warp * 128 * NT, sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
      const int row = i % 16;
      const int index = base + i / 16;
      if (index >= entry.count) continue;
      float gate = 0.0F;
      float up = 0.0F;
      for (int from = 0; from < half; ++from) {
        gate += blocks[from * 128 * NT + row * (8 * NT) + i / 16];
        up += blocks[(half + from) * 128 * NT + row * (8 * NT) + i / 16];
      }
      gate *= row_scale<type>(entry.expert + experts.gate.offset + blockIdx.x * experts.gate.tile_bytes,
                              experts.gate, row);
      up *= row_scale<type>(entry.expert + experts.up.offset + blockIdx.x * experts.up.tile_bytes, experts.up,
                            row);
      // Rows beyond inner are zeros in the tile, so the padding of activated becomes zero.
      activated[entry.pairs[index] * activated_stride + blockIdx.x * 16 + row] =
          __float2bfloat16_rn(gate / (1.0F + __expf(-gate)) * up);
    }
    __syncthreads();
  }
}

struct ResultRows {
  float* data;
  std::int64_t token_stride;
  std::int64_t choice_stride;
};

template <NumberType type, int NT>
__global__ void __launch_bounds__(256) down(const __nv_bfloat16* activated, std::int64_t activated_stride,
                                            int k, Experts experts, Assignments assigned, ResultRows rows) {
  extern __shared__ __align__(16) unsigned char shared[];
  using Stream = cuda::TileStream<type, NT, kStages>;
  const Tiles& tiles = experts.down;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int each = (tiles.chunks + warps - 1) / warps;
  const int first = warp * each;
  const int end = min(tiles.chunks, first + each);
  const auto ring = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                    static_cast<std::uint32_t>(warp * Stream::kRingBytes);
  auto* blocks = reinterpret_cast<float*>(shared + warps * Stream::kRingBytes);
  // Who goes where was settled before gate_up began (it let us start only after its own wait), so the weights
  // are fetched while it still runs; only the activations must be waited for.
  const Entry entry = entry_of(experts, assigned);
  const unsigned char* tile = entry.expert + tiles.offset + blockIdx.x * tiles.tile_bytes;
  for (int base = 0; base < max(entry.count, 1); base += 8 * NT) {
    Stream stream;
    stream.start(ring, tile, entry.count > 0 ? first : 0, entry.count > 0 ? end : 0);
    if (base == 0) {
      cuda::let_next_start();
      cuda::wait_for_previous();
      if (entry.count == 0) return;
    }
    const __nv_bfloat16* columns[NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const int index = base + 8 * n + lane / 4;
      columns[n] = index < entry.count ? activated + entry.pairs[index] * activated_stride : nullptr;
    }
    float sums[NT][4] = {};
    stream.finish(sums, [&](int n, int chunk, int i) {
      return cuda::eight_columns(
          columns[n], chunk * cuda::Format<type>::kChunk + cuda::x_offset<type>(lane % 4, i), tiles.in);
    });
    cuda::store_sums(blocks + warp * 128 * NT, sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 128 * NT; i += static_cast<int>(blockDim.x)) {
      const int row = static_cast<int>(blockIdx.x) * 16 + i % 16;
      const int index = base + i / 16;
      if (index >= entry.count || row >= tiles.out) continue;
      float sum = 0.0F;
      for (int from = 0; from < warps; ++from) sum += blocks[from * 128 * NT + i % 16 * (8 * NT) + i / 16];
      const int pair = entry.pairs[index];
      rows.data[pair / k * rows.token_stride + pair % k * rows.choice_stride + row] =
          sum * row_scale<type>(tile, tiles, i % 16);
    }
    __syncthreads();
  }
}

struct Plan {
  Experts experts;
  Assignments assigned;
  cuda::AssignmentShape shape;
  __nv_bfloat16* activated;
  std::int64_t activated_stride;
};

template <NumberType type, int NT>
void run_tiles(Cuda& cuda, const ExpertFfn& op, const Plan& plan) {
  using Stream = cuda::TileStream<type, NT, kStages>;
  constexpr int kPerWarp = Stream::kRingBytes + NT * 512;
  const auto entries = static_cast<unsigned>(plan.shape.entries());
  const int k = plan.shape.k;
  const auto inner_tiles = static_cast<unsigned>(plan.activated_stride / 16);
  constexpr int kGateWarps = 8;
  constexpr int kDownWarps = 4;
  cuda::launch(
      gate_up<type, NT>,
      {.grid = dim3(inner_tiles, entries), .threads = 32 * kGateWarps, .shared_bytes = kGateWarps * kPerWarp},
      cuda.state().stream, true, cuda::rows_of(op.x), k, plan.experts, plan.assigned, plan.activated,
      plan.activated_stride);
  cuda::launch(down<type, NT>,
               {.grid = dim3(cuda::blocks_for(op.layout.down.out, 16), entries),
                .threads = 32 * kDownWarps,
                .shared_bytes = kDownWarps * kPerWarp},
               cuda.state().stream, true, static_cast<const __nv_bfloat16*>(plan.activated),
               plan.activated_stride, k, plan.experts, plan.assigned,
               ResultRows{op.rows.f32(), op.rows.stride(0), op.rows.stride(1)});
}

// Tokens an expert can expect decide how many columns a block takes at once: known from the sizes alone.
int column_groups(const cuda::AssignmentShape& shape) {
  const int expected = shape.pairs() / shape.experts;
  return expected <= 8 ? 1 : 4;
}

__global__ void combine(Rows rows, std::int64_t choice_stride, int k, Rows weights, Rows y,
                        std::int64_t hidden) {
  cuda::let_next_start();
  cuda::wait_for_previous();
  const std::int64_t column = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= hidden) return;
  const std::int64_t token = blockIdx.y;
  float sum = 0.0F;
  for (int choice = 0; choice < k; ++choice)
    sum += weights.row(token)[choice] * rows.row(token)[choice * choice_stride + column];
  y.row(token)[column] += sum;
}

}  // namespace

void run(Cuda& cuda, const ExpertFfn& op) {
  if (op.x.dim(0) == 0) return;
  if (op.layout.gate.packing != Packing::tiles)
    throw std::invalid_argument(
        "experts on a GPU must lie in tiles; f32 experts cannot (accepted: f16, bf16, fp8, int8, int4, "
        "int4_g32, mxfp4)");
  Plan plan{};
  plan.experts = {static_cast<const unsigned char*>(op.slots), op.layout.bytes, tiles_of(op.layout.gate, 0),
                  tiles_of(op.layout.up, op.layout.up_offset),
                  tiles_of(op.layout.down, op.layout.down_offset)};
  plan.shape = {static_cast<int>(op.ids.dim(0)), static_cast<int>(op.ids.dim(1)),
                static_cast<int>(op.slot_of_expert.dim(0))};
  const TileLayout down_tiles = TileLayout::of(op.layout.down.type, op.layout.down.out, op.layout.down.in);
  plan.activated_stride = down_tiles.chunks * down_tiles.chunk;
  const std::size_t lists = (plan.shape.bytes() + 255) / 256 * 256;
  const std::size_t activated =
      static_cast<std::size_t>(plan.shape.pairs() * plan.activated_stride) * sizeof(__nv_bfloat16);
  auto* scratch = static_cast<unsigned char*>(cuda.state().scratch(lists + activated));
  plan.assigned = cuda::place_assignments(scratch, plan.shape);
  plan.activated = reinterpret_cast<__nv_bfloat16*>(scratch + lists);
  cuda::sort_assignments(cuda, op.ids.i32(), op.ids.stride(0), op.slot_of_expert.i32(), plan.shape,
                         plan.assigned);
  cuda::with_tile_type(op.layout.gate.type, [&](auto type) {
    if (column_groups(plan.shape) == 1)
      run_tiles<decltype(type)::value, 1>(cuda, op, plan);
    else
      run_tiles<decltype(type)::value, 4>(cuda, op, plan);
  });
}

void run(Cuda& cuda, const Combine& op) {
  const std::int64_t hidden = op.y.dim(1);
  if (op.rows.dim(0) == 0) return;
  cuda::launch(
      combine,
      {.grid = dim3(cuda::blocks_for(hidden, 256), static_cast<unsigned>(op.rows.dim(0))), .threads = 256},
      cuda.state().stream, true, cuda::rows_of(op.rows), op.rows.stride(1), static_cast<int>(op.rows.dim(1)),
      cuda::rows_of(op.weights), cuda::rows_of(op.y), hidden);
}

}  // namespace moetune
