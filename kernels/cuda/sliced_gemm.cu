#include "kernels/cuda/sliced_gemm.cuh"

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/slices.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = kSliceWarps;
constexpr int kTurn = kPairTurn;

// What the blocks of a group leave for the one that finishes last.
struct Left {
  float* sums;     // (token group, slice, tile pair, 8 NT tokens, 32 rows)
  float* squares;  // (token group, group, slice, 8 NT tokens)
  int* arrived;    // (token group, group), zeros before and after
};

template <NumberType type, int NT>
__global__ void __launch_bounds__(32 * kWarps, 2)
    sliced(const __grid_constant__ TileGemm op, Slices slices, Left left) {
  extern __shared__ __align__(128) unsigned char shared[];
  using F = Format<type>;
  using Pair = TilePair<type, NT>;
  constexpr int kColumns = 8 * NT;
  constexpr int kSums = kColumns * 32;
  __shared__ float squares[kColumns];
  __shared__ bool is_last;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int slice = static_cast<int>(blockIdx.x) % slices.count;
  const int group = static_cast<int>(blockIdx.x) / slices.count;
  const int first_token = static_cast<int>(blockIdx.y) * kColumns;
  const int tokens = min(kColumns, op.tokens - first_token);
  const int pairs = (op.tiles + 1) / 2;
  const int first = group * pairs / slices.groups;
  const int end = (group + 1) * pairs / slices.groups;
  const int first_chunk = slice * slices.chunks;
  const int chunks = min(slices.chunks, op.chunks - first_chunk);

  struct Tile {
    const GemmPart* part;
    int index;  // in its part
    const unsigned char* at;
  };
  const auto tile_of = [&](int index) {
    if (index >= op.tiles) return Tile{nullptr, 0, nullptr};
    int p = 0;
    while (p + 1 < op.parts && index >= op.part[p + 1].first_tile) ++p;
    const GemmPart& part = op.part[p];
    const int of_part = index - part.first_tile;
    return Tile{&part, of_part, part.tiles + of_part * part.tile_bytes};
  };
  Pair pair;
  int ahead_unit = first;
  int ahead_chunk = warp;
  const unsigned char* ahead[2] = {};
  const auto enter = [&] {
    for (int i = 0; i < 2; ++i) ahead[i] = ahead_unit < end ? tile_of(2 * ahead_unit + i).at : nullptr;
  };
  enter();
  const auto fetch = [&](int turn) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (ahead_chunk < chunks) pair.fetch(turn, i, ahead[i], first_chunk + ahead_chunk, op.chunks);
    ahead_chunk += kWarps;
    if (ahead_chunk < slices.steps * kWarps) return;
    ahead_chunk = warp;
    ++ahead_unit;
    enter();
  };
#pragma unroll
  for (int turn = 0; turn < kTurn; ++turn) fetch(turn);
  let_next_start();
  wait_for_previous();

  // The slice of the rows as bf16, times the norm's weight; a warp takes a row.
  const int columns = slices.chunks * F::kChunk;
  const int row_bytes = TilePair<NumberType::bf16, 1>::row_bytes(columns);
  const bool is_aligned = op.in % 4 == 0 && op.x.stride % 4 == 0;
  float square[NT] = {};
  for (int base = 0; base < columns; base += 512) {
    float4 x[NT][4];
    float4 weight[4];
    // All are asked for before the first is stored: the compiler moves no read in front of a store.
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = base + i * 128 + lane * 4;
      const bool exists = column < columns;
      weight[i] = {1.0F, 1.0F, 1.0F, 1.0F};
      if (op.norm != nullptr && exists)
        weight[i] = four_of(op.norm, first_chunk * F::kChunk + column, op.in, is_aligned);
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const int token = n * kWarps + warp;
        x[n][i] = {0.0F, 0.0F, 0.0F, 0.0F};
        if (exists && token < tokens)
          x[n][i] =
              four_of(op.x.row(first_token + token), first_chunk * F::kChunk + column, op.in, is_aligned);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = base + i * 128 + lane * 4;
      if (column >= columns) break;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const float4& v = x[n][i];
        square[n] += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        *reinterpret_cast<uint2*>(shared + (n * kWarps + warp) * row_bytes + column * 2) =
            packed({v.x * weight[i].x, v.y * weight[i].y, v.z * weight[i].z, v.w * weight[i].w});
      }
    }
  }
  if (op.norm != nullptr)
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const float sum = warp_sum(square[n]);
      if (lane == 0) squares[n * kWarps + warp] = sum;
    }
  __syncthreads();

  // Where a sum goes, null: nowhere; and what it becomes there.
  const auto place_of = [&](const Tile& tile, int row, int token) -> float* {
    const int out = tile.index * 16 + row;
    const bool exists = tile.part != nullptr && token < tokens && out < tile.part->out;
    return exists ? tile.part->y.row(first_token + token) + out : nullptr;
  };
  const auto final_of = [&](const Tile& tile, int row, float sum, float square) {
    if constexpr (type == NumberType::int8)
      sum *= reinterpret_cast<const float*>(tile.at + std::int64_t{op.chunks} * Pair::kBytes)[row];
    if (op.norm != nullptr) sum *= rsqrtf(square / static_cast<float>(op.in) + op.eps);
    if (tile.part->bias != nullptr) sum += tile.part->bias[tile.index * 16 + row];
    return sum;
  };
  auto* sums = reinterpret_cast<float*>(shared + kColumns * row_bytes);
  const std::uint32_t x_at = Pair::place(shared, row_bytes);
  const auto left_of = [&](int of_slice, int unit) {
    return left.sums + ((std::int64_t{blockIdx.y} * slices.count + of_slice) * pairs + unit) * kSums;
  };
  for (int unit = first; unit < end; ++unit) {
    for (int step = 0; step < slices.steps; step += kTurn) {
#pragma unroll
      for (int turn = 0; turn < kTurn; ++turn) {
        const int chunk = (step + turn) * kWarps + warp;
        if (chunk < chunks) pair.multiply(turn, x_at, row_bytes, chunk, NT);
        fetch(turn);
      }
    }
    pair.take([&](int row, int token, float a, float b) {
      float* to = sums + (warp * kColumns + token) * kSumStride + row;
      to[0] = a;
      to[16] = b;
    });
    const bool is_alone = slices.count == 1;
    const int row = thread % 32;
    const Tile tile = is_alone ? tile_of(2 * unit + row / 16) : Tile{};
    float* to[NT];
    float before[NT];
#pragma unroll
    for (int n = 0; n < NT; ++n) {  // asked for before it is needed
      to[n] = is_alone ? place_of(tile, row % 16, n * kWarps + warp)
                       : left_of(slice, unit) + n * kWarps * 32 + thread;
      before[n] = is_alone && op.accumulates && to[n] != nullptr ? *to[n] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      if (to[n] == nullptr) continue;
      const int token = n * kWarps + warp;
      float sum = 0.0F;
#pragma unroll
      for (int from = 0; from < kWarps; ++from) sum += sums[(from * kColumns + token) * kSumStride + row];
      *to[n] = is_alone ? before[n] + final_of(tile, row % 16, sum, squares[token]) : sum;
    }
    __syncthreads();
  }
  if (slices.count == 1) return;
  const int of_group = static_cast<int>(blockIdx.y) * slices.groups + group;
  const auto square_of = [&](int of_slice, int token) -> float& {
    return left.squares[(of_group * slices.count + of_slice) * kColumns + token];
  };
  if (thread < kColumns && op.norm != nullptr) square_of(slice, thread) = squares[thread];
  __syncthreads();
  if (thread == 0) {
    is_last = arrive(left.arrived + of_group) == slices.count - 1;
    if (is_last) left.arrived[of_group] = 0;
  }
  __syncthreads();
  if (!is_last) return;
  if (thread < kColumns && op.norm != nullptr) {
    float square = 0.0F;
    for (int other = 0; other < slices.count; ++other) square += __ldcg(&square_of(other, thread));
    squares[thread] = square;
  }
  __syncthreads();
  // Four rows of a token a thread, as many slices at a time: one after the other each would wait for the L2
  // cache.
  const int row = thread * 4 % 32;
  const int token = thread * 4 / 32;
  if (token >= tokens) return;
  for (int unit = first; unit < end; ++unit) {
    const Tile tile = tile_of(2 * unit + row / 16);
    float* to[4];
    float total[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      to[c] = place_of(tile, row % 16 + c, token);
      total[c] = op.accumulates && to[c] != nullptr ? *to[c] : 0.0F;
    }
    float sum[4] = {};
    constexpr int kTogether = 4;
    for (int other = 0; other < slices.count; other += kTogether) {
      float4 v[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        v[i] = {0.0F, 0.0F, 0.0F, 0.0F};
        if (other + i < slices.count)
          v[i] = __ldcg(reinterpret_cast<const float4*>(left_of(other + i, unit)) + thread);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        sum[0] += v[i].x;
        sum[1] += v[i].y;
        sum[2] += v[i].z;
        sum[3] += v[i].w;
      }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (to[c] != nullptr) *to[c] = total[c] + final_of(tile, row % 16 + c, sum[c], squares[token]);
  }
}

template <NumberType type, int NT>
void run_sliced(Cuda& cuda, const TileGemm& op) {
  const Slices slices =
      slices_of<NT>(op, Format<type>::kChunk, cuda.state().multiprocessors, most_shared_bytes(cuda));
  const unsigned token_groups = blocks_for(op.tokens, 8 * NT);
  Left left{};
  if (slices.count > 1) {
    const auto sums = static_cast<std::size_t>(token_groups) * static_cast<std::size_t>(slices.count) *
                      static_cast<std::size_t>((op.tiles + 1) / 2) * (8 * NT * 32);
    const std::size_t squares =
        std::size_t{token_groups} * static_cast<std::size_t>(slices.groups * slices.count) * (8 * NT);
    left.sums = static_cast<float*>(cuda.state().scratch((sums + squares) * sizeof(float)));
    left.squares = left.sums + sums;
    left.arrived = cuda.state().counters(static_cast<int>(token_groups) * slices.groups);
  }
  launch(sliced<type, NT>,
         {.grid = dim3(static_cast<unsigned>(slices.count * slices.groups), token_groups),
          .threads = 32 * kWarps,
          .shared_bytes = sliced_shared_bytes<NT>(slices.chunks * Format<type>::kChunk)},
         cuda.state().stream, true, op, slices, left);
}

}  // namespace

void sliced_gemm(Cuda& cuda, NumberType type, const TileGemm& op) {
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    if (op.tokens <= 8)
      run_sliced<kType, 1>(cuda, op);
    else
      run_sliced<kType, 4>(cuda, op);
  });
}

}  // namespace moetune::cuda
