#include "kernels/cuda/ffn_few.cuh"

#include <algorithm>
#include <cstdlib>

#include "kernels/cuda/few_product.cuh"

namespace moetune::cuda {
namespace {

constexpr int kGateWarps = 8;
constexpr int kDownWarps = 16;
constexpr int kMostChoices = 32;                // a lane knows the slot of one
constexpr int kMostSharedBytes = 100 * 1024;    // two blocks of a multiprocessor
constexpr int kHeld = 4;                        // chunks a warp has under way

// Where the slot of choice lane % count starts; null: not in this wave.
__device__ __forceinline__ const unsigned char* slot_of_lane(const FfnWork& work, const unsigned char* slots) {
  const FfnEntries& entries = work.entries;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  if (entries.kind == FfnEntries::Kind::everyone) return slots;
  if (lane >= entries.count) return nullptr;
  const int slot = entries.slot_of_expert[entries.ids[lane]];
  return slot < 0 ? nullptr : slots + slot * work.slot_bytes;
}
__device__ __forceinline__ const unsigned char* of_lane(const unsigned char* pointer, int lane) {
  return reinterpret_cast<const unsigned char*>(
      __shfl_sync(0xFFFFFFFFU, reinterpret_cast<unsigned long long>(pointer), lane));
}

// The order in which a warp of gate_up takes its chunks: tile by tile, every `warps`th chunk of each.
class GateCursor {
 public:
  const unsigned char* slot_of_my_choice;
  std::int64_t tile_bytes;
  int tiles_each;  // of a choice
  int tiles_left;  // of the block
  int choice;
  int tile;
  int chunk = 0;
  const unsigned char* at = nullptr;  // null: not there

  __device__ __forceinline__ void enter() {
    at = nullptr;
    if (tiles_left <= 0) return;
    const unsigned char* slot = of_lane(slot_of_my_choice, choice);
    if (slot != nullptr) at = slot + tile * tile_bytes;
  }
  __device__ __forceinline__ void next_tile() {
    --tiles_left;
    if (++tile < tiles_each && tiles_left > 0) {
      if (at != nullptr) at += tile_bytes;
      return;
    }
    if (tile == tiles_each) tile = 0, ++choice;
    enter();
  }
};

template <NumberType type>
__global__ void __launch_bounds__(32 * kGateWarps, 3) gate_up_few(const __grid_constant__ FfnWork work, FewShape shape, int steps) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Held = HeldChunk<type>;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int tokens = shape.tokens;
  const int chunks = work.gate.chunks;
  const int tiles_each = (work.gate.out + 15) / 16;
  const int all = tiles_each * work.entries.count;
  const int first = static_cast<int>(blockIdx.x * static_cast<unsigned>(all) / gridDim.x);
  const int end = static_cast<int>((blockIdx.x + 1) * static_cast<unsigned>(all) / gridDim.x);
  const std::int64_t up_from_gate = work.up.data - work.gate.data;
  const std::int64_t row_scales = std::int64_t{chunks} * Held::kBytes;
  wait_for_previous();
  let_next_start();  // only now: who chose whom is settled for down, which asks before it waits
  const unsigned char* slot_of_my_choice = slot_of_lane(work, work.gate.data);
  int choice = first / tiles_each;
  int tile = first - choice * tiles_each;
  GateCursor ahead{slot_of_my_choice, work.gate.tile_bytes, tiles_each, end - first, choice, tile, warp};
  ahead.enter();
  constexpr int kTurn = kHeld / 2;
  Held gate[kTurn];
  Held up[kTurn];
  const auto fetch = [&](int i) {
    const int chunk = ahead.chunk + i * warps;
    if (ahead.at != nullptr && chunk < chunks) {
      const unsigned char* from = ahead.at + chunk * Held::kBytes;
      gate[i].fetch(from, ahead.at + row_scales);
      up[i].fetch(from + up_from_gate, ahead.at + up_from_gate + row_scales);
    }
    if (i < kTurn - 1) return;
    ahead.chunk += kTurn * warps;
    if (ahead.chunk < steps * warps) return;
    ahead.chunk = warp;
    ahead.next_tile();
  };
#pragma unroll
  for (int i = 0; i < kTurn; ++i) fetch(i);
  FewColumns<type> columns(shared, shape);
  columns.stage(
      work.gate.in, work.gate.in % 4 == 0 && work.x.stride % 4 == 0,
      [&](int token, int) { return static_cast<const float*>(work.x.row(token)); }, [](int, int) { return 1.0F; });
  __syncthreads();
  // Of a warp: gate, then up, (token, row). Twice: one is read while the other is written.
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  const int sums_of_warp = 2 * tokens * 16;
  int parity = 0;
  for (int unit = first; unit < end; ++unit) {
    FewSums<type> gate_sums;
    FewSums<type> up_sums;
    int chunk = warp;
    for (int step = 0; step < steps; step += kTurn) {
#pragma unroll
      for (int i = 0; i < kTurn; ++i) {
        if (chunk < chunks) {  // of a slot that is not there it is whatever came before, and not stored
          typename FewColumns<type>::Fragment x;
          columns.load(x, chunk);
          gate[i].multiply(gate_sums, x);
          up[i].multiply(up_sums, x);
        }
        chunk += warps;
        fetch(i);
      }
    }
    float* mine = sums + (parity * warps + warp) * sums_of_warp;
    if (lane % 4 < tokens)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = lane % 4 * 16 + lane / 4 + 8 * half;
        mine[i] = gate_sums.of(half);
        mine[tokens * 16 + i] = up_sums.of(half);
      }
    __syncthreads();
    if (warp == (unit - first) % warps && of_lane(slot_of_my_choice, choice) != nullptr) {
      const float* theirs = sums + parity * warps * sums_of_warp;
      for (int i = lane; i < tokens * 16; i += 32) {
        float gate_sum = 0.0F;
        float up_sum = 0.0F;
#pragma unroll 4
        for (int from = 0; from < warps; ++from) {
          gate_sum += theirs[from * sums_of_warp + i];
          up_sum += theirs[from * sums_of_warp + tokens * 16 + i];
        }
        const int pair = choice + i / 16;  // there are several choices or several tokens, not both
        reinterpret_cast<float*>(work.activated)[pair * work.activated_stride + tile * 16 + i % 16] =
            gate_sum / (1.0F + __expf(-gate_sum)) * up_sum;
      }
    }
    parity ^= 1;
    if (++tile == tiles_each) tile = 0, ++choice;
  }
}

// A block takes 16 rows of the result: the chunks of all choices, one behind the other, are dealt out to its warps.
template <NumberType type>
__global__ void __launch_bounds__(32 * kDownWarps) down_few(const __grid_constant__ FfnWork work, FewShape shape, Rows weights, Rows y) {
  extern __shared__ __align__(128) unsigned char shared[];
  using Held = HeldChunk<type>;
  const FfnTiles& tiles = work.down;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<int>(blockDim.x / 32);
  const int tokens = shape.tokens;
  const std::int64_t row_scales = std::int64_t{tiles.chunks} * Held::kBytes;
  // Who goes where was settled before gate_up let us start, and weights are never written: they are on their way while
  // gate_up still runs. Only the activations must be waited for.
  const unsigned char* slot_of_my_choice = slot_of_lane(work, tiles.data);
  // A warp's chunks follow each other, from choice to choice.
  const int all = tiles.chunks * work.entries.count;
  const int first = warp * all / warps;
  const int mine = (warp + 1) * all / warps - first;
  const int first_choice = first / tiles.chunks;
  struct Ahead {
    int left;
    int choice;
    int chunk;
    const unsigned char* tile;
  } ahead{mine, first_choice, first - first_choice * tiles.chunks, nullptr};
  const auto enter = [&] {
    const unsigned char* slot = of_lane(slot_of_my_choice, min(ahead.choice, kMostChoices - 1));
    ahead.tile = slot != nullptr ? slot + std::int64_t{blockIdx.x} * tiles.tile_bytes : nullptr;
  };
  enter();
  Held held[kHeld];
  const auto fetch = [&](int i) {
    if (ahead.left > 0 && ahead.tile != nullptr) held[i].fetch(ahead.tile + ahead.chunk * Held::kBytes, ahead.tile + row_scales);
    --ahead.left;
    if (++ahead.chunk < tiles.chunks) return;
    ahead.chunk = 0;
    ++ahead.choice;
    enter();
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) fetch(i);
  if (ahead.tile != nullptr) {  // what this choice has left for the warp: as far as the L2 cache
    const int bytes = min(ahead.left, tiles.chunks - ahead.chunk) * Held::kBytes;
    for (int from = lane * 128; from < bytes; from += 32 * 128)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(ahead.tile + ahead.chunk * Held::kBytes + from));
  }
  let_next_start();
  wait_for_previous();
  FewColumns<type> columns(shared, shape);
  const float my_weight = weights.data != nullptr && lane < work.entries.count ? weights.row(0)[lane] : 1.0F;
  columns.stage(
      tiles.in, tiles.in % 4 == 0,
      [&](int token, int choice) {
        // What was left out of this wave was not written; as zeros it can be multiplied by whatever a register holds.
        if (of_lane(slot_of_my_choice, choice) == nullptr) return static_cast<const float*>(nullptr);
        return reinterpret_cast<const float*>(work.activated) + (token + choice) * work.activated_stride;
      },
      [&](int, int choice) { return __shfl_sync(0xFFFFFFFFU, my_weight, choice); });
  __syncthreads();
  FewSums<type> sum;
  int chunk = first - first_choice * tiles.chunks;
  int unit = first_choice * columns.units_of_row() + chunk;
  const int skipped = columns.units_of_row() - tiles.chunks;
  for (int done = 0; done < mine; done += kHeld) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      if (done + i < mine) {
        typename FewColumns<type>::Fragment x;
        columns.load(x, unit);
        held[i].multiply(sum, x);
      }
      ++unit;
      if (++chunk == tiles.chunks) chunk = 0, unit += skipped;
      fetch(i);
    }
  }
  auto* sums = reinterpret_cast<float*>(shared + shape.bytes());
  if (lane % 4 < tokens)
#pragma unroll
    for (int half = 0; half < 2; ++half) sums[(warp * tokens + lane % 4) * 16 + lane / 4 + 8 * half] = sum.of(half);
  __syncthreads();
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread >= tokens * 16) return;
  const int row = static_cast<int>(blockIdx.x) * 16 + thread % 16;
  if (row >= tiles.out) return;
  float all = 0.0F;
  for (int from = 0; from < warps; ++from) all += sums[from * tokens * 16 + thread];
  y.row(thread / 16)[row] += all;
}

int padded(int columns) { return (columns + kScaledTogether - 1) / kScaledTogether * kScaledTogether; }

FewShape shape_of(NumberType type, const FfnWork& work, bool is_down) {
  const FfnTiles& tiles = is_down ? work.down : work.gate;
  const bool is_one = work.entries.kind == FfnEntries::Kind::one_token;
  const int width = tiles.chunks * static_cast<int>(TileLayout::of(type, 1, 1).chunk);
  return {is_one ? 1 : work.entries.tokens, is_down && is_one ? work.entries.count : 1, padded(width),
          has_integers(type) ? 1 : 2};
}

// So many warps that their last chunks waste least; steps: chunks of each, a multiple of those under way.
struct Sharing {
  int warps;
  int steps;
};
Sharing gate_sharing(int chunks) {
  constexpr int kTurn = kHeld / 2;
  Sharing best{1, (chunks + kTurn - 1) / kTurn * kTurn};
  for (int warps = 2; warps <= kGateWarps; ++warps) {
    const int steps = (chunks + warps * kTurn - 1) / (warps * kTurn) * kTurn;
    if (warps < 5 || steps * warps <= best.steps * best.warps || best.warps < 5) best = {warps, steps};
  }
  return best;
}

// Blocks that share `units` with the least left over, two or three to a multiprocessor.
int gate_blocks(int units, int multiprocessors) {
  int best = units;
  int least = 0;
  for (const int each : {3, 2}) {
    const int most = each * multiprocessors;
    const int units_each = (units + most - 1) / most;
    const int blocks = (units + units_each - 1) / units_each;
    const int cost = (blocks + multiprocessors - 1) / multiprocessors * units_each;
    if (least == 0 || cost < least) least = cost, best = blocks;
  }
  return best;
}

}  // namespace

bool is_few(NumberType type, const FfnWork& work) {
  if (std::getenv("MOETUNE_OLD_FFN") != nullptr) return false;
  if (!down_joins(work.entries) || work.entries.tokens > kFewTokens || work.entries.count > kMostChoices) return false;
  return shape_of(type, work, false).bytes() <= kMostSharedBytes && shape_of(type, work, true).bytes() <= kMostSharedBytes;
}

void run_gate_up_few(Cuda& cuda, NumberType type, const FfnWork& work) {
  const FewShape shape = shape_of(type, work, false);
  const Sharing sharing = gate_sharing(work.gate.chunks);
  const int units = (work.gate.out + 15) / 16 * work.entries.count;
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(gate_up_few<kType>,
           {.grid = dim3(static_cast<unsigned>(gate_blocks(units, cuda.state().multiprocessors))),
            .threads = 32 * sharing.warps,
            .shared_bytes = shape.bytes() + 2 * sharing.warps * 2 * shape.tokens * 64},
           cuda.state().stream, true, work, shape, sharing.steps);
  });
}

void run_down_few(Cuda& cuda, NumberType type, const FfnWork& work, Rows weights, Rows y) {
  const FewShape shape = shape_of(type, work, true);
  const int warps = std::clamp(work.entries.count * work.down.chunks / kHeld, 1, kDownWarps);
  with_tile_type(type, [&](auto constant) {
    constexpr NumberType kType = decltype(constant)::value;
    launch(down_few<kType>,
           {.grid = dim3(blocks_for(work.down.out, 16)),
            .threads = 32 * warps,
            .shared_bytes = shape.bytes() + warps * shape.tokens * 64},
           cuda.state().stream, true, work, shape, weights, y);
  });
}

}  // namespace moetune::cuda
