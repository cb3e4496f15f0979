#include "kernels/cuda/sliced_gemm.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/few_product.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kTurn = 2;                      // chunks of each of the two tiles that a warp has under way
constexpr int kMostSliceBytes = 72 * 1024;    // of activations: two blocks to a multiprocessor
constexpr int kSumStride = 33;                // of a token's 32 rows: other banks

struct Slices {
  int count;
  int chunks;  // of each
  int groups;  // blocks that share the tiles of one slice
  int steps;   // chunks of a warp, rounded up
  __host__ __device__ static int row_bytes(int columns) { return columns * 2 + 64; }
};

// What the blocks of a group leave for the one that finishes last.
struct Left {
  float* sums;     // (token group, slice, tile pair, 8 NT tokens, 32 rows)
  float* squares;  // (token group, group, slice, 8 NT tokens)
  int* arrived;    // (token group, group), zeros before and after
};

template <NumberType type, int NT>
__global__ void __launch_bounds__(32 * kWarps, 2) sliced(const __grid_constant__ TileGemm op, Slices slices, Left left) {
  extern __shared__ __align__(128) unsigned char shared[];
  using F = Format<type>;
  using Held = HeldChunk<type>;
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
  Held held[2][kTurn];
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
      if (ahead[i] != nullptr && ahead_chunk < chunks)
        held[i][turn].fetch(ahead[i] + std::int64_t{first_chunk + ahead_chunk} * Held::kBytes,
                            ahead[i] + std::int64_t{op.chunks} * Held::kBytes);
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
  const int row_bytes = Slices::row_bytes(columns);
  const bool is_aligned = op.in % 4 == 0 && op.x.stride % 4 == 0;
  for (int token = warp; token < kColumns; token += kWarps) {
    float square = 0.0F;
    const float* row = op.x.row(first_token + min(token, tokens - 1));
    for (int base = 0; base < columns; base += 512) {
      float4 x[4];
      float4 weight[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // all are asked for before the first is stored
        const int column = base + i * 128 + lane * 4;
        if (column >= columns) break;
        x[i] = four_of(row, first_chunk * F::kChunk + column, token < tokens ? op.in : 0, is_aligned);
        weight[i] = {1.0F, 1.0F, 1.0F, 1.0F};
        if (op.norm != nullptr) weight[i] = four_of(op.norm, first_chunk * F::kChunk + column, op.in, is_aligned);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = base + i * 128 + lane * 4;
        if (column >= columns) break;
        square += x[i].x * x[i].x + x[i].y * x[i].y + x[i].z * x[i].z + x[i].w * x[i].w;
        *reinterpret_cast<uint2*>(shared + token * row_bytes + column * 2) =
            packed({x[i].x * weight[i].x, x[i].y * weight[i].y, x[i].z * weight[i].z, x[i].w * weight[i].w});
      }
    }
    if (op.norm != nullptr) {
      square = warp_sum(square);
      if (lane == 0) squares[token] = square;
    }
  }
  __syncthreads();

  const auto final_of = [&](const Tile& tile, int row, int token, float sum, float square) {
    if (tile.part == nullptr || token >= tokens) return;
    const int out = tile.index * 16 + row;
    if (out >= tile.part->out) return;
    if constexpr (type == NumberType::int8)
      sum *= reinterpret_cast<const float*>(tile.at + std::int64_t{op.chunks} * Held::kBytes)[row];
    if (op.norm != nullptr) sum *= rsqrtf(square / static_cast<float>(op.in) + op.eps);
    if (tile.part->bias != nullptr) sum += tile.part->bias[out];
    float& to = tile.part->y.row(first_token + token)[out];
    to = op.accumulates ? to + sum : sum;
  };
  auto* sums = reinterpret_cast<float*>(shared + kColumns * row_bytes);
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t x_at =
      base + static_cast<std::uint32_t>(lane / 4 * row_bytes + x_offset<type>(lane % 4, 0) * 2);
  const auto left_of = [&](int of_slice, int unit) {
    return left.sums + ((std::int64_t{blockIdx.y} * slices.count + of_slice) * pairs + unit) * kSums;
  };
  for (int unit = first; unit < end; ++unit) {
    float part[2][NT][4] = {};
    for (int step = 0; step < slices.steps; step += kTurn) {
#pragma unroll
      for (int turn = 0; turn < kTurn; ++turn) {
        const int chunk = (step + turn) * kWarps + warp;
        if (chunk < chunks) {
          float scaled[2][NT][4] = {};
          constexpr bool kHasScales = F::kScaleGroups > 0;
          auto& to = kHasScales ? scaled : part;
          uint4 b[NT];
#pragma unroll
          for (int m = 0; m < F::kMmas; ++m) {
            if (m % 2 == 0)
#pragma unroll
              for (int n = 0; n < NT; ++n)
                b[n] = load_shared16(x_at + static_cast<std::uint32_t>(8 * n * row_bytes + chunk * F::kChunk * 2 +
                                                                       x_offset<type>(0, m / 2) * 2));
            std::uint32_t a[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) held[i][turn].operands(m, a[i]);
#pragma unroll
            for (int n = 0; n < NT; ++n)
#pragma unroll
              for (int i = 0; i < 2; ++i)
                mma(to[i][n], a[i][0], a[i][1], a[i][2], a[i][3], word(b[n], 2 * (m % 2)), word(b[n], 2 * (m % 2) + 1));
            constexpr int kPerScale = kHasScales ? F::kMmas / (kHasScales ? F::kScaleGroups : 1) : F::kMmas;
            if constexpr (kHasScales)
              if (m % kPerScale == kPerScale - 1)
#pragma unroll
                for (int i = 0; i < 2; ++i)
#pragma unroll
                  for (int half = 0; half < 2; ++half) {
                    const float scale = held[i][turn].scale_of(m / kPerScale, half);
#pragma unroll
                    for (int n = 0; n < NT; ++n)
#pragma unroll
                      for (int c = 2 * half; c < 2 * half + 2; ++c) {
                        part[i][n][c] += scale * scaled[i][n][c];
                        scaled[i][n][c] = 0.0F;
                      }
                  }
          }
        }
        fetch(turn);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          sums[(warp * kColumns + 8 * n + lane % 4 * 2 + c % 2) * kSumStride + i * 16 + lane / 4 + c / 2 * 8] = part[i][n][c];
    __syncthreads();
    const Tile tiles[2] = {tile_of(2 * unit), tile_of(2 * unit + 1)};
    for (int i = thread; i < kSums; i += 32 * kWarps) {
      const int row = i % 32;
      const int token = i / 32;
      float sum = 0.0F;
      for (int from = 0; from < kWarps; ++from) sum += sums[(from * kColumns + token) * kSumStride + row];
      if (slices.count > 1)
        left_of(slice, unit)[i] = sum;
      else
        final_of(tiles[row / 16], row % 16, token, sum, squares[token]);
    }
    __syncthreads();
  }
  bring_soon(op);
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
  for (int unit = first; unit < end; ++unit) {
    const Tile tiles[2] = {tile_of(2 * unit), tile_of(2 * unit + 1)};
    for (int i = thread; i < kSums; i += 32 * kWarps) {
      float sum = 0.0F;
      for (int other = 0; other < slices.count; ++other) sum += __ldcg(left_of(other, unit) + i);
      final_of(tiles[i % 32 / 16], i % 16, i / 32, sum, squares[i / 32]);
    }
  }
}

template <int NT>
int shared_bytes(int slice_columns) {
  return 8 * NT * Slices::row_bytes(slice_columns) + kWarps * 8 * NT * kSumStride * static_cast<int>(sizeof(float));
}

// The slices that leave the least work to the busiest multiprocessor: every chunk of a slice costs the same, and so does what
// a block does besides, as much as kBesides chunks of a warp.
template <int NT>
Slices slices_of(const TileGemm& op, int chunk_columns, int multiprocessors) {
  constexpr int kBesides = 4;
  constexpr int kMostSlices = 16;
  const int pairs = (op.tiles + 1) / 2;
  const int token_groups = (op.tokens + 8 * NT - 1) / (8 * NT);
  Slices best{};
  int least = 0;
  for (int count = 1; count <= kMostSlices && count <= op.chunks; ++count) {
    Slices slices{};
    slices.chunks = (op.chunks + count - 1) / count;
    slices.count = (op.chunks + slices.chunks - 1) / slices.chunks;
    if (8 * NT * Slices::row_bytes(slices.chunks * chunk_columns) > kMostSliceBytes) continue;
    slices.steps = (slices.chunks + kWarps * kTurn - 1) / (kWarps * kTurn) * kTurn;
    const int room = std::max(1, 2 * multiprocessors / (slices.count * token_groups));
    const int units_each = (pairs + room - 1) / room;
    slices.groups = (pairs + units_each - 1) / units_each;
    const int waves = (slices.groups * slices.count * token_groups + multiprocessors - 1) / multiprocessors;
    const int cost = waves * (units_each * slices.steps + kBesides);
    if (least == 0 || cost < least) least = cost, best = slices;
  }
  return best;
}

template <NumberType type, int NT>
void run_sliced(Cuda& cuda, const TileGemm& op) {
  const Slices slices = slices_of<NT>(op, Format<type>::kChunk, cuda.state().multiprocessors);
  const unsigned token_groups = blocks_for(op.tokens, 8 * NT);
  Left left{};
  if (slices.count > 1) {
    const auto sums = static_cast<std::size_t>(token_groups) * static_cast<std::size_t>(slices.count) *
                      static_cast<std::size_t>((op.tiles + 1) / 2) * (8 * NT * 32);
    const std::size_t squares = std::size_t{token_groups} * static_cast<std::size_t>(slices.groups * slices.count) * (8 * NT);
    left.sums = static_cast<float*>(cuda.state().scratch((sums + squares) * sizeof(float)));
    left.squares = left.sums + sums;
    left.arrived = cuda.state().counters(static_cast<int>(token_groups) * slices.groups);
  }
  launch(sliced<type, NT>,
         {.grid = dim3(static_cast<unsigned>(slices.count * slices.groups), token_groups),
          .threads = 32 * kWarps,
          .shared_bytes = shared_bytes<NT>(slices.chunks * Format<type>::kChunk)},
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
