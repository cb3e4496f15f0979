#include "kernels/cuda/ffn_many.cuh"

#include <algorithm>

#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/tile_pair.cuh"

namespace moetune::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kGroups = 2;  // of eight tokens
constexpr int kBlocksEach = 2;
constexpr int kMostSharedBytes = 72 * 1024;

// What down writes.
struct ResultRows {
  float* data;
  std::int64_t token_stride;
  std::int64_t choice_stride;
};

// Neighbouring units (pairs of tiles) of one expert, for some of its tokens. A block's units follow each
// other from expert to expert; its warps ask ahead, so each finds its own way.
class Segment {
 public:
  int first_unit;  // of the expert
  int end_unit;
  int base;   // first token
  int count;  // tokens of the expert
  const std::int32_t* pairs;
  const unsigned char* slot;

  __device__ __forceinline__ Segment(const FfnWork& work, const unsigned char* slots, int units_each,
                                     int first, int end)
      : work_(work), slots_(slots), units_each_(units_each), next_(first), end_(end) {
    enter();
  }
  __device__ __forceinline__ bool exists() const { return slot != nullptr; }
  __device__ __forceinline__ void advance(int tokens) {
    base += tokens;
    if (base >= count) enter();
  }

 private:
  __device__ __forceinline__ void enter() {
    slot = nullptr;
    if (next_ >= end_) return;
    const Assignments& sorted = work_.entries.sorted;
    const int entry = next_ / units_each_;
    first_unit = next_ - entry * units_each_;
    end_unit = min(units_each_, first_unit + end_ - next_);
    next_ += end_unit - first_unit;
    base = 0;
    const int first_pair = sorted.first[entry];
    count = sorted.first[entry + 1] - first_pair;
    pairs = sorted.pairs + first_pair;
    slot = slots_ + sorted.slots[entry] * work_.slot_bytes;
  }

  const FfnWork& work_;
  const unsigned char* slots_;
  int units_each_;
  int next_;
  int end_;
};

// A unit: 16 rows of gate and up, or 32 of down. tokens: staged at once.
template <NumberType type, bool is_down>
__global__ void __launch_bounds__(32 * kWarps, kBlocksEach)
    many(const __grid_constant__ FfnWork work, int tokens, ResultRows rows) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Pair = TilePair<type, kGroups>;
  constexpr int kChunk = Format<type>::kChunk;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const FfnTiles& tiles = is_down ? work.down : work.gate;
  const int matrix_tiles = (tiles.out + 15) / 16;
  const int units_each = is_down ? (matrix_tiles + 1) / 2 : matrix_tiles;
  const std::int64_t unit_bytes = is_down ? 2 * tiles.tile_bytes : tiles.tile_bytes;
  const std::int64_t to_second = is_down ? tiles.tile_bytes : work.up.data - work.gate.data;
  const int row_bytes = Pair::row_bytes(tiles.chunks * kChunk);
  if constexpr (!is_down) {
    wait_for_previous();
    let_next_start();  // only now: down asks who chose whom before it waits
  }
  const int all = *work.entries.sorted.count * units_each;
  const int first = static_cast<int>(blockIdx.x * static_cast<unsigned>(all) / gridDim.x);
  const int end = static_cast<int>((blockIdx.x + 1) * static_cast<unsigned>(all) / gridDim.x);
  const auto has_second = [&](int unit) { return !is_down || 2 * unit + 1 < matrix_tiles; };

  // Where the warp's loads are: segment, unit, chunk.
  Pair pair;
  Segment ahead(work, tiles.data, units_each, first, end);
  int ahead_unit = 0;
  int ahead_chunk = 0;
  const unsigned char* at = nullptr;
  const auto find_unit = [&] {  // ahead_unit or the first one after it
    at = nullptr;
    while (ahead.exists() && ahead_unit >= ahead.end_unit) {
      ahead.advance(tokens);
      ahead_unit = ahead.first_unit + warp;
    }
    if (ahead.exists()) at = ahead.slot + ahead_unit * unit_bytes;
  };
  ahead_unit = ahead.exists() ? ahead.first_unit + warp : 0;
  find_unit();
  const auto fetch = [&](int turn) {
    const int chunk = ahead_chunk + turn;
    if (at != nullptr && chunk < tiles.chunks) {
      pair.fetch(turn, 0, at, chunk, tiles.chunks);
      pair.fetch(turn, 1, has_second(ahead_unit) ? at + to_second : nullptr, chunk, tiles.chunks);
    }
    if (turn < Pair::kTurn - 1) return;
    ahead_chunk += Pair::kTurn;
    if (ahead_chunk < tiles.chunks) return;
    ahead_chunk = 0;
    ahead_unit += kWarps;
    find_unit();
  };
#pragma unroll
  for (int turn = 0; turn < Pair::kTurn; ++turn) fetch(turn);
  if constexpr (is_down) {
    let_next_start();
    wait_for_previous();
  }

  const std::uint32_t x_at = Pair::place(shared, row_bytes);
  const bool is_aligned = tiles.in % 4 == 0 && work.x.stride % 4 == 0;
  for (Segment segment(work, tiles.data, units_each, first, end); segment.exists(); segment.advance(tokens)) {
    const int count = min(tokens, segment.count - segment.base);
    const std::int32_t* pairs = segment.pairs + segment.base;
    __syncthreads();  // the rows before these have been read
    const int octets = tiles.chunks * kChunk / 8;
    const int written = (tiles.in + 15) / 16 * 2;  // octets of an activated row that gate and up write
    for (int token = warp; token < count; token += kWarps) {
      const int of = pairs[token];
      unsigned char* to = shared + token * row_bytes;
#pragma unroll 4
      for (int octet = lane; octet < octets; octet += 32) {
        uint4 bits = {0, 0, 0, 0};
        if constexpr (is_down) {
          if (octet < written)
            bits = reinterpret_cast<const uint4*>(work.activated)[(of * work.activated_stride) / 8 + octet];
        } else {
          const float* row = work.x.row(of / work.entries.k);
          const uint2 low = packed(four_of(row, octet * 8, tiles.in, is_aligned));
          const uint2 high = packed(four_of(row, octet * 8 + 4, tiles.in, is_aligned));
          bits = {low.x, low.y, high.x, high.y};
        }
        reinterpret_cast<uint4*>(to)[octet] = bits;
      }
    }
    __syncthreads();
    const int groups = (count + 7) / 8;
    for (int unit = segment.first_unit + warp; unit < segment.end_unit; unit += kWarps) {
      for (int chunk = 0; chunk < tiles.chunks; chunk += Pair::kTurn) {
#pragma unroll
        for (int turn = 0; turn < Pair::kTurn; ++turn) {
          if (chunk + turn < tiles.chunks) pair.multiply(turn, x_at, row_bytes, chunk + turn, groups);
          fetch(turn);
        }
      }
      const unsigned char* tile = segment.slot + unit * unit_bytes;
      const auto scale_of = [&](int row, bool second) {
        if constexpr (type == NumberType::int8)
          return !second || has_second(unit)
                     ? reinterpret_cast<const float*>(tile + (second ? to_second : 0) +
                                                      std::int64_t{tiles.chunks} * Pair::kBytes)[row]
                     : 0.0F;
        return 1.0F;
      };
      pair.take([&](int row, int token, float a, float b) {
        if (token >= count) return;
        a *= scale_of(row, false);
        b *= scale_of(row, true);
        const int of = pairs[token];
        if constexpr (is_down) {
          float* to = rows.data + of / work.entries.k * rows.token_stride +
                      of % work.entries.k * rows.choice_stride + 32 * unit;
          if (32 * unit + row < tiles.out) to[row] = a;
          if (32 * unit + 16 + row < tiles.out) to[16 + row] = b;
        } else {
          reinterpret_cast<__nv_bfloat16*>(work.activated)[of * work.activated_stride + unit * 16 + row] =
              __float2bfloat16_rn(a / (1.0F + __expf(-a)) * b);
        }
      });
    }
  }
}

int columns_of(NumberType type, const FfnTiles& tiles) {
  return tiles.chunks * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
}

// Rows that are staged at once; 0: not even eight fit.
int rows_at_once(NumberType type, const FfnTiles& tiles) {
  const int bytes = TilePair<NumberType::bf16, 1>::row_bytes(columns_of(type, tiles));
  for (const int rows : {8 * kGroups, 8})
    if (rows * bytes <= kMostSharedBytes) return rows;
  return 0;
}

template <bool is_down>
void run_many(Cuda& cuda, NumberType type, const FfnWork& work, const ResultRows& rows) {
  const FfnTiles& tiles = is_down ? work.down : work.gate;
  const int tokens = rows_at_once(type, tiles);
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(many<kType, is_down>,
           {.grid = dim3(static_cast<unsigned>(kBlocksEach * cuda.state().multiprocessors)),
            .threads = 32 * kWarps,
            .shared_bytes = tokens * TilePair<kType, 1>::row_bytes(columns_of(kType, tiles))},
           cuda.state().stream, true, work, tokens, rows);
  });
}

}  // namespace

bool has_nibbles(NumberType type) { return TileLayout::of(type, 1, 1).chunk == 128; }

bool is_many(NumberType type, const FfnWork& work) {
  // An expert's weights are read again for every rows_at_once() of its tokens.
  constexpr int kMostOnAverage = 6;
  // Types of more bits need few instructions, and with few tokens the kernels of ffn_tiles.cuh lose less time
  // at the end, where whole tiles are left over (an H200, Qwen3 in bf16: 8 tokens 140 us there, 167 here; 64
  // tokens 390 there, 334 here).
  constexpr int kLeastOnAverage = 3;
  if (!has_nibbles(type) && work.pairs() < kLeastOnAverage * work.entries.count) return false;
  // Fewer tokens keep sixteen bits of their activations, which takes two columns for each.
  if (work.entries.tokens <= kSplitTokens) return false;
  if (work.entries.kind != FfnEntries::Kind::by_expert || work.pairs() > kMostOnAverage * work.entries.count)
    return false;
  return rows_at_once(type, work.gate) > 0 && rows_at_once(type, work.down) > 0;
}

void run_gate_up_many(Cuda& cuda, NumberType type, const FfnWork& work) {
  run_many<false>(cuda, type, work, {});
}

void run_down_many(Cuda& cuda, NumberType type, const FfnWork& work, float* rows, std::int64_t token_stride,
                   std::int64_t choice_stride) {
  run_many<true>(cuda, type, work, {rows, token_stride, choice_stride});
}

}  // namespace moetune::cuda
